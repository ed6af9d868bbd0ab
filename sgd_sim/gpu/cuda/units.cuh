// Networks: p weight vectors for every instance, one pass over its data for all of them. Eq. [c-step].
//
// Put before common.cuh besides: dmft/core/cuda/lanes.cuh, the functions of the activation and unit_scale, that of the constraint,
// translated from Python, M_AT .. MSE_FRESH_AT (rows of the curves), and definitions of
//   UNITS, DIRECTIONS  p and k
// Weights, second layer and intercepts of an instance lie one after the other, INSTANCE_SIZE numbers. TEAM is WARPS here: all warps
// of a block share a row, each thread holds its columns of it, of the weights and of the gradients.

#define INSTANCE_SIZE (UNITS * N + 2 * UNITS)
#define FIELDS_HELD (ROWS_HELD * UNITS) // fields of the rows that are held; one warp has a lane for each

// kappa (instances, rows, DIRECTIONS): fields of the directions (instances, DIRECTIONS, N). Grid (rows, instances).
extern "C" __global__ void fields_of_directions(const Stored *data, const double *directions, int rows, double *kappa) {
    extern __shared__ double shared[];
    const i64 row = (i64)blockIdx.y * rows + blockIdx.x;
    for (int s = 0; s < DIRECTIONS; s++) {
        const double *direction = directions + ((i64)blockIdx.y * DIRECTIONS + s) * N;
        double field = 0.0;
        for (int j = threadIdx.x; j < N; j += blockDim.x) field += (double)number(data[row * STRIDE + j]) * direction[j];
        field = block_sum(field, shared);
        if (threadIdx.x == 0) kappa[row * DIRECTIONS + s] = field * ROOT;
    }
}

// Outputs (instances, rows) of all rows where mode has ALL, and with DRAW, for the rows of the mini-batch s (ring, instances, rows;
// none: all rows), partial (instances, chunks, UNITS, PADDED), sums over a chunk of g_mu x_mu, and pushes (instances, chunks, 2,
// UNITS), of a and beta. e (instances, UNITS, PADDED): weights. Grid (chunks, instances).
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
pass_over_units(int mode, i64 step, int ring, const double *settings, i64 lines, const Stored *data, const double *labels, int rows,
                double *outputs, const int *live, const unsigned char *s, const float *e, const double *parameters, float *partial,
                double *pushes) {
    extern __shared__ double shared[];
    double *told = shared, *parts = told + CHUNK;                       // labels of the chunk; a_r s(h_r) of the rows that are held
    // (FIELDS_HELD, TEAM) parts of the fields; (FIELDS_HELD,) g of the rows
    float *sums = (float *)(parts + FIELDS_HELD), *factors = sums + FIELDS_HELD * TEAM;
    unsigned short *list = (unsigned short *)(factors + FIELDS_HELD);
    unsigned char *weight = (unsigned char *)(list + CHUNK + 2);
    const int thread = threadIdx.x, lane = thread % LANES, warp = thread / LANES, unit = lane % UNITS;
    const i64 instance = blockIdx.y, chunk = blockIdx.x, first = chunk * CHUNK;
    if (!live[instance]) return;
    const int count = min((i64)CHUNK, rows - first);
    const double *second = parameters + instance * INSTANCE_SIZE + UNITS * N, a = second[unit], beta = second[UNITS + unit];
    const double scale = settings_of(settings, lines, step)[SCALE];
    data += (instance * rows + first) * STRIDE, labels += instance * rows + first, outputs += instance * rows + first;
    if (s) s += (step % ring * gridDim.y + instance) * rows + first;
    for (int i = thread; i < count; i += THREADS) told[i] = labels[i], weight[i] = mode & DRAW ? (s ? s[i] : 1) : 0;
    __syncthreads();
    if (warp == 0) {
        const int end = list_rows(weight, count, mode & ALL, list);
        if (lane == 0) list[CHUNK] = end;
    }
    float e_part[UNITS][VECTORS][VECTOR_WIDTH], gradient[UNITS][VECTORS][VECTOR_WIDTH];
#pragma unroll
    for (int u = 0; u < UNITS; u++)
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
#pragma unroll
            for (int q = 0; q < VECTOR_WIDTH / 4; q++) {
                const Quad x = ((const Quad *)(e + (instance * UNITS + u) * PADDED))[q * SPAN * VECTORS + thread + v * SPAN];
                e_part[u][v][4 * q] = x.x, e_part[u][v][4 * q + 1] = x.y,
                e_part[u][v][4 * q + 2] = x.z, e_part[u][v][4 * q + 3] = x.w;
                for (int j = 0; j < 4; j++) gradient[u][v][4 * q + j] = 0.0f;
            }
    __syncthreads();
    const int listed = list[CHUNK];
    double push_a = 0.0, push_beta = 0.0; // of a lane of the first warp: of its unit and its place among the rows that are held

    for (int k = 0; k < listed; k += ROWS_HELD) {
        Vector held[ROWS_HELD][VECTORS];
        float product[FIELDS_HELD];
#pragma unroll
        for (int r = 0; r < ROWS_HELD; r++) {
            const bool there = k + r < listed;
            const Vector *address = (const Vector *)(data + (i64)(there ? list[k + r] : 0) * STRIDE) + thread;
#pragma unroll
            for (int v = 0; v < VECTORS; v++) {
                held[r][v] = {0, 0, 0, 0};
                if (there && ((v + 1) * SPAN <= ROW_VECTORS || v * SPAN + thread < ROW_VECTORS))
                    held[r][v] = stream_in(address + v * SPAN);
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS_HELD; r++) {
#pragma unroll
            for (int u = 0; u < UNITS; u++) product[r * UNITS + u] = 0.0f;
#pragma unroll
            for (int v = 0; v < VECTORS; v++) {
                float x[VECTOR_WIDTH];
                unpack(held[r][v], x);
#pragma unroll
                for (int u = 0; u < UNITS; u++)
#pragma unroll
                    for (int j = 0; j < VECTOR_WIDTH; j++)
                        product[r * UNITS + u] = fmaf(x[j], e_part[u][v][j], product[r * UNITS + u]);
            }
        }
        lane_sums(product, [=](int index, float sum) { sums[index * TEAM + warp] = sum; });
        __syncthreads();
        if (warp == 0) {
            double field = beta, value = 0.0;
            const bool there = lane < FIELDS_HELD && k + lane / UNITS < listed;
            if (there) {
                double total = 0.0;
                for (int part = 0; part < TEAM; part++) total += sums[lane * TEAM + part];
                field += ROOT * total, value = activation_s<double>(field);
            }
            if (lane < FIELDS_HELD) parts[lane] = a * value;
            __syncwarp();
            if (there) {
                const int row = list[k + lane / UNITS];
                double f = 0.0, push = 0.0;
                for (int u = 0; u < UNITS; u++) f += parts[lane - unit + u];
                if ((mode & ALL) && unit == 0) outputs[row] = f;
                if (weight[row]) {
                    const double c = coefficient<double>(scale, weight[row], loss_dv<double>(f, told[row]));
                    push = c * a * activation_ds<double>(field); // [c-step]
                    push_a += c * value, push_beta += push;
                }
                factors[lane] = (float)push;
            } else if (lane < FIELDS_HELD)
                factors[lane] = 0.0f;
        }
        __syncthreads();
        if (!(mode & DRAW)) continue;
#pragma unroll
        for (int r = 0; r < ROWS_HELD; r++)
#pragma unroll
            for (int v = 0; v < VECTORS; v++) {
                float x[VECTOR_WIDTH];
                unpack(held[r][v], x);
#pragma unroll
                for (int u = 0; u < UNITS; u++) {
                    const float factor = factors[r * UNITS + u];
#pragma unroll
                    for (int j = 0; j < VECTOR_WIDTH; j++) gradient[u][v][j] = fmaf(factor, x[j], gradient[u][v][j]);
                }
            }
    }
    if (!(mode & DRAW)) return;
    const i64 place = instance * gridDim.x + chunk;
#pragma unroll
    for (int u = 0; u < UNITS; u++)
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
#pragma unroll
            for (int q = 0; q < VECTOR_WIDTH / 4; q++)
                ((Quad *)(partial + (place * UNITS + u) * PADDED))[q * SPAN * VECTORS + thread + v * SPAN] = {
                    gradient[u][v][4 * q], gradient[u][v][4 * q + 1], gradient[u][v][4 * q + 2], gradient[u][v][4 * q + 3]};
    if (warp > 0) return;
    for (int which = 0; which < 2; which++) {
        if (lane < FIELDS_HELD) parts[lane] = which ? push_beta : push_a;
        __syncwarp();
        double total = 0.0;
        if (lane < UNITS)
            for (int r = 0; r < ROWS_HELD; r++) total += parts[r * UNITS + lane];
        if (lane < UNITS) pushes[(place * 2 + which) * UNITS + lane] = total;
        __syncwarp();
    }
}

// One step of all parameters of an instance, eqs. [c-step], [c-a], and e at the weights of the next pass; with chunks = 0 only e,
// at w or, with ahead = 1 and a rule that looks ahead, at the point ahead. rates: of a and beta, over that of the weights. thermal
// (instances, UNITS). A parameter that is no number ends the instance. Grid (instances).
extern "C" __global__ void __launch_bounds__(THREADS)
step_units(i64 step, const double *settings, i64 lines, int ahead, int chunks, double rate_a, double rate_beta,
           const float *partial, const double *pushes, double *before, double *parameters, const u64 *thermal, float *e, int *live,
           i64 *diverged_at) {
    extern __shared__ double shared[];
    const i64 instance = blockIdx.x;
    if (!live[instance]) return;
    double *w = parameters + instance * INSTANCE_SIZE, factor[UNITS], trace = 0.0, bad = 0.0;
    if (REMEMBERS) before += instance * INSTANCE_SIZE;
    partial += instance * chunks * UNITS * PADDED, e += instance * UNITS * PADDED, pushes += instance * chunks * 2 * UNITS;
    const double *now = settings_of(settings, lines, step);
    if (chunks) {
        for (int u = 0; u < UNITS; u++) {
            double square = 0.0;
            for (int c = threadIdx.x; c < N; c += THREADS) {
                const double here = w[u * N + c], old = REMEMBERS ? before[u * N + c] : 0.0;
                double total = 0.0;
#pragma unroll 8
                for (int chunk = 0; chunk < chunks; chunk++) total += partial[((i64)chunk * UNITS + u) * PADDED + position(c)];
                double next = moved<double>(now[KEEP], now[RECOIL], now[LOOKAHEAD], now[RATE], here, old, total); // [c-step]
                if (now[NOISE] > 0.0) next += now[NOISE] * one_normal(thermal[instance * UNITS + u], (u64)step, c); // [c-step]
                if (REMEMBERS) before[u * N + c] = here;
                w[u * N + c] = next;
                square += next * next;
            }
            factor[u] = block_sum(square, shared) / N;
            trace += factor[u];
        }
        for (int i = threadIdx.x; i < 2 * UNITS; i += THREADS) {
            double total = 0.0;
            for (int chunk = 0; chunk < chunks; chunk++) total += pushes[(i64)chunk * 2 * UNITS + i];
            if (REMEMBERS) before[UNITS * N + i] = w[UNITS * N + i];
            w[UNITS * N + i] =
                pushed<double>(w[UNITS * N + i], now[ETA] * (i < UNITS ? rate_a : rate_beta), total, N); // [c-second]
            bad += !is_number(w[UNITS * N + i]);
        }
        step++;
    }
    const double lookahead = ahead ? settings_of(settings, lines, step)[LOOKAHEAD] : 0.0;
    for (int u = 0; u < UNITS; u++) {
        const double scale = chunks ? unit_scale<double>(u, factor[u], trace, UNITS) : 1.0;
        for (int c = threadIdx.x; c < N; c += THREADS) {
            const double x = w[u * N + c] *= scale; // [c-step], [c-a]
            e[u * PADDED + position(c)] = (float)(LOOKS_AHEAD ? point_ahead<double>(lookahead, x, before[u * N + c]) : x);
            bad += !is_number(x);
        }
    }
    bad = block_sum(bad, shared);
    if (threadIdx.x == 0 && bad > 0.0) live[instance] = 0, diverged_at[instance] = step;
}

// Put m, C, a, beta, the training loss, the error on fresh samples and what observables average into curves[instance, :, column];
// one that is no number ends the instance. Grid (instances).
extern "C" __global__ void record_units(const double *parameters, const double *directions, const double *outputs,
                                        const double *labels, const double *kappa, int rows, const double *test_outputs,
                                        const double *test_labels, int tests, i64 step, double *curves, int column,
                                        int columns, int *live, i64 *diverged_at) {
    extern __shared__ double shared[];
    const i64 instance = blockIdx.x;
    if (!live[instance]) return;
    const double *w = parameters + instance * INSTANCE_SIZE;
    directions += instance * DIRECTIONS * N, outputs += instance * rows, labels += instance * rows;
    test_outputs += instance * tests, test_labels += instance * tests, curves += instance * QUANTITIES * columns + column;
    double loss = 0.0, error = 0.0, all = 0.0;
    for (int i = threadIdx.x; i < rows; i += blockDim.x) loss += loss_v<double>(outputs[i], labels[i]);
    for (int i = threadIdx.x; i < tests; i += blockDim.x) {
        const double difference = test_outputs[i] - test_labels[i];
        error += difference * difference;
    }
    const auto put = [&](int row, double value) {
        if (threadIdx.x == 0) curves[(i64)row * columns] = value;
        all += value;
    };
    const auto product = [&](const double *one, const double *other) {
        double sum = 0.0;
        for (int c = threadIdx.x; c < N; c += blockDim.x) sum += one[c] * other[c];
        return block_sum(sum, shared) / N;
    };
    put(LOSS_AT, block_sum(loss, shared) / rows);
    put(MSE_FRESH_AT, block_sum(error, shared) / tests);
    for (int r = 0; r < UNITS; r++) {
        put(A_AT + r, w[UNITS * N + r]), put(BETA_AT + r, w[UNITS * N + UNITS + r]);
        for (int s = 0; s < DIRECTIONS; s++) put(M_AT + r * DIRECTIONS + s, product(w + r * N, directions + s * N));
        for (int q = 0; q <= r; q++) {
            const double overlap = product(w + r * N, w + q * N);
            put(C_AT + r * UNITS + q, overlap), put(C_AT + q * UNITS + r, overlap);
        }
    }
#ifdef AVERAGES
    double averaged[AVERAGES] = {}, values[AVERAGES];
    kappa += instance * rows * DIRECTIONS;
    for (int i = threadIdx.x; i < rows; i += blockDim.x) {
        average_values(outputs[i], labels[i], kappa[i * DIRECTIONS], values);
        for (int k = 0; k < AVERAGES; k++) averaged[k] += values[k];
    }
    for (int k = 0; k < AVERAGES; k++) put(QUANTITIES - AVERAGES + k, block_sum(averaged[k], shared) / rows);
#endif
    if (threadIdx.x > 0 || is_number(all)) return;
    live[instance] = 0, diverged_at[instance] = step;
    for (int row = 0; row < QUANTITIES; row++)
        for (int c = 0; c < columns - column; c++) curves[(i64)row * columns + c] = all - all; // NaN
}
