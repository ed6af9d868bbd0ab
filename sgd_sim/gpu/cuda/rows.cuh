// The one pass over the data of a step: a row is read once, into registers, for its field and for the gradient.
//
// A block takes a chunk of the rows of an instance. A team of warps holds ROWS_HELD rows at a time: their products with e,
// their coefficients, then their part of the gradient, which stays in registers until the chunk is done.

// Fills fields (instances, rows) where mode has ALL, and partial (instances, chunks, PADDED) = sum over a chunk of c_mu x_mu.
// data, h0: of the instance's landscape, `apart` rows after that of the previous instance (0: all share one); side, going:
// sign and live, or their counterparts in the spectral start. s: mini-batches (ring, instances, rows), none: all rows.
//
// With STEP, the last block of an instance to arrive (counted in `arrived`) steps its weights; the order in which the partial
// gradients are added does not depend on which block that is. settings: the numbers of all steps.
//
// One launch makes several steps, from first_step on. Blocks draw tickets (the first of this launch is no_tickets), which number
// the chunks of all instances, step after step; a block whose instance has not finished the step before waits for it. Blocks with
// earlier tickets never wait for later ones, so one of them can always work, and the card is full until the last step ends.
// Grid (chunks * instances * steps).
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
pass_over_rows(int mode, i64 first_step, u64 no_tickets, u64 *tickets, int instances, int ring, const double *settings, i64 lines,
               const Stored *data, const double *h0, i64 apart, int rows, double *fields, const double *side, const int *going,
               const unsigned char *s, unsigned *arrived, float *partial, double *pushes, double *b,
               double *before, double *w, const double *w0, i64 w0_apart, const u64 *thermal, float *e, double *m,
               double *sign, int *live, i64 *diverged_at, i64 *ready) {
    extern __shared__ double shared[];
    Quad *quads = (Quad *)shared;   // e, later the gradients of the warps; sums of the warps of a team
    double *teachers = (double *)((char *)shared + PASS_ROOM);   // h0 of the chunk
    i64 *work = (i64 *)(teachers + CHUNK);                  // for all threads: the ticket, and the step of the instance
    unsigned short *list = (unsigned short *)(work + 2);
    unsigned char *weight = (unsigned char *)(list + CHUNK + 2);
    const int thread = threadIdx.x, lane = thread % LANES, warp = thread / LANES, chunks = (rows + CHUNK - 1) / CHUNK;
    if (thread == 0) work[0] = atomicAdd(tickets, 1ull) - no_tickets;
    __syncthreads();
    const int chunk = work[0] % chunks, instance = work[0] / chunks % instances;
    const i64 step = first_step + work[0] / chunks / instances;
    const double *now = settings_of(settings, lines, step);
    const int first = chunk * CHUNK, count = min(CHUNK, rows - first);
    data += ((i64)instance * apart + first) * STRIDE;
    h0 += (i64)instance * apart + first;
    fields += (i64)instance * rows + first;
    const Quad *e_quads = (const Quad *)(e + (i64)instance * PADDED);
    if (s) s += (step % ring * instances + instance) * rows + first;

    // First everything that does not depend on the step before, then wait for that step.
    for (int i = thread; i < count; i += THREADS) teachers[i] = h0[i], weight[i] = mode & DRAW ? (s ? s[i] : 1) : 0;
    __syncthreads();
    if (warp == 0) {
        int end = list_rows(weight, count, mode & ALL, list);
        if (lane == 0) list[CHUNK] = end;
    }
    if (thread == THREADS - 1) {
        i64 stands = going[instance] ? step : NEVER_READY;
        if (mode & STEP)
            while ((stands = acquire(ready + instance)) < step) rest();
        work[1] = stands;
    }
    __syncthreads();
    if (work[1] == NEVER_READY) return;
    const int listed = list[CHUNK], place = thread % SPAN;
    const double nearer = fresh(side + instance), scale = now[SCALE];
#if INTERCEPT
    const double shift = fresh(b + instance);
    double push = 0.0;   // sum of the coefficients of this warp's rows
#else
    const double shift = 0.0;
#endif
#if TEAM == 1
    for (int i = thread; i < PADDED / 4; i += THREADS) quads[i] = fresh(e_quads + i);
#else
    float e_part[VECTORS][VECTOR_WIDTH];
#pragma unroll
    for (int v = 0; v < VECTORS; v++)
#pragma unroll
        for (int p = 0; p < VECTOR_WIDTH / 4; p++) {
            Quad q = fresh(e_quads + p * SPAN * VECTORS + thread + v * SPAN);
            e_part[v][4 * p] = q.x, e_part[v][4 * p + 1] = q.y, e_part[v][4 * p + 2] = q.z, e_part[v][4 * p + 3] = q.w;
        }
    float *sums = (float *)shared, *factors = sums + ROWS_HELD * TEAM;
#endif
    __syncthreads();

    float gradient[VECTORS][VECTOR_WIDTH];
#pragma unroll
    for (int v = 0; v < VECTORS; v++)
#pragma unroll
        for (int j = 0; j < VECTOR_WIDTH; j++) gradient[v][j] = 0.0f;

    for (int k = (warp / TEAM) * ROWS_HELD; k < listed; k += (WARPS / TEAM) * ROWS_HELD) {
        Vector held[ROWS_HELD][VECTORS];
        float product[ROWS_HELD], factor[ROWS_HELD];
#pragma unroll
        for (int r = 0; r < ROWS_HELD; r++) {
            const bool there = k + r < listed;
            const int row = there ? list[k + r] : 0;
            const Vector *address = (const Vector *)(data + (i64)row * STRIDE) + place;
#pragma unroll
            for (int v = 0; v < VECTORS; v++) {
                held[r][v] = {0, 0, 0, 0};
                if (there && ((v + 1) * SPAN <= ROW_VECTORS || v * SPAN + place < ROW_VECTORS))
                    held[r][v] = stream_in(address + v * SPAN);
            }
            product[r] = 0.0f;
        }
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            float x[VECTOR_WIDTH];
#if TEAM == 1
            float e_now[VECTOR_WIDTH];
#pragma unroll
            for (int p = 0; p < VECTOR_WIDTH / 4; p++) {
                Quad q = quads[p * SPAN * VECTORS + place + v * SPAN];
                e_now[4 * p] = q.x, e_now[4 * p + 1] = q.y, e_now[4 * p + 2] = q.z, e_now[4 * p + 3] = q.w;
            }
#else
            const float *e_now = e_part[v];
#endif
#pragma unroll
            for (int r = 0; r < ROWS_HELD; r++) {
                unpack(held[r][v], x);
#pragma unroll
                for (int j = 0; j < VECTOR_WIDTH; j++) product[r] = fmaf(x[j], e_now[j], product[r]);
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS_HELD; r++)
            for (int offset = LANES / 2; offset > 0; offset /= 2) product[r] += __shfl_xor_sync(ALL_LANES, product[r], offset);
#if TEAM == 1
#pragma unroll
        for (int r = 0; r < ROWS_HELD; r++) {
            factor[r] = 0.0f;
            if (k + r < listed) {
                const int row = list[k + r];
                double field;
                factor[r] = factor_of(product[r], teachers[row], nearer, shift, scale, weight[row], mode, field);
                if ((mode & ALL) && lane == 0) fields[row] = field;
            }
        }
#else
#pragma unroll
        for (int r = 0; r < ROWS_HELD; r++)
            if (lane == 0) sums[r * TEAM + warp] = product[r];
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ROWS_HELD; r++)
            if (thread == r * LANES) {   // one thread of warp r
                factors[r] = 0.0f;
                if (k + r < listed) {
                    double total = 0.0, field;
                    for (int part = 0; part < TEAM; part++) total += sums[r * TEAM + part];
                    const int row = list[k + r];
                    factors[r] = factor_of((float)total, teachers[row], nearer, shift, scale, weight[row], mode, field);
                    if (mode & ALL) fields[row] = field;
                }
            }
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ROWS_HELD; r++) factor[r] = factors[r];
#endif
#if INTERCEPT
#pragma unroll
        for (int r = 0; r < ROWS_HELD; r++) push += factor[r];
#endif
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
#pragma unroll
            for (int r = 0; r < ROWS_HELD; r++) {
                float x[VECTOR_WIDTH];
                unpack(held[r][v], x);
#pragma unroll
                for (int j = 0; j < VECTOR_WIDTH; j++) gradient[v][j] = fmaf(factor[r], x[j], gradient[v][j]);
            }
    }

    Quad *out = (Quad *)(partial + ((i64)instance * chunks + chunk) * PADDED);
#if TEAM == 1
    __syncthreads();   // e is not needed any more
    Quad *mine = quads + warp * (PADDED / 4);
#else
    Quad *mine = out;
#endif
#pragma unroll
    for (int v = 0; v < VECTORS; v++)
#pragma unroll
        for (int p = 0; p < VECTOR_WIDTH / 4; p++)
            mine[p * SPAN * VECTORS + place + v * SPAN] = {gradient[v][4 * p], gradient[v][4 * p + 1], gradient[v][4 * p + 2],
                                                           gradient[v][4 * p + 3]};
#if TEAM == 1
    __syncthreads();
    for (int i = thread; i < PADDED / 4; i += THREADS) {
        Quad total = quads[i];
#pragma unroll
        for (int other = 1; other < WARPS; other++) {
            Quad q = quads[other * (PADDED / 4) + i];
            total.x += q.x, total.y += q.y, total.z += q.z, total.w += q.w;
        }
        out[i] = total;
    }
#endif
#if INTERCEPT
    __syncthreads();
    push = block_sum(lane == 0 && (TEAM == 1 || warp == 0) ? push : 0.0, shared);
    if (thread == 0) pushes[(i64)instance * chunks + chunk] = push;
#endif

    if (!(mode & STEP)) return;
    __threadfence();
    __syncthreads();
    if (thread == 0) work[0] = atomicAdd(&arrived[instance], 1u) == chunks - 1;
    __syncthreads();
    if (!work[0]) return;
    __threadfence();
    if (thread == 0) arrived[instance] = 0;
    step_weights(instance, step, settings, lines, 1, partial, chunks, shared, pushes, b, before, w, w0, w0_apart, thermal,
                 e, m, sign, live, diverged_at, ready);
}
