// The update of the weights between two passes, and the records. One block of THREADS per instance.

#define THREAD_COLUMNS ((N + THREADS - 1) / THREADS)   // of a thread

// Gradient of column c: the chunks, first to last.
__device__ inline double total_of(const float *partial, int chunks, int c) {
    const float *place = partial + position(c);
    double total = 0.0;
#pragma unroll 8
    for (int chunk = 0; chunk < chunks; chunk++) total += fresh(place + (i64)chunk * PADDED);
    return total;
}

// Compute m, sign and e of weights u (a thread's columns of them) at a step; returns 0 if the overlap is NaN, which ends the
// instance. Where the rule looks ahead e is that of the point ahead.
__device__ inline bool measure(const double *u, const double *old, double lookahead, const double *w0, i64 step, float *e,
                               double *m, double *sign, int *live, i64 *diverged_at, double *room) {
    double product = 0.0;
#pragma unroll
    for (int k = 0; k < THREAD_COLUMNS; k++) {
        int c = threadIdx.x + k * THREADS;
        if (c < N) product += u[k] * w0[c];
    }
    const double overlap = block_sum(product, room) / N, side = ANCHORED ? (overlap >= 0.0 ? 1.0 : -1.0) : 0.0;
#pragma unroll
    for (int k = 0; k < THREAD_COLUMNS; k++) {
        int c = threadIdx.x + k * THREADS;
#if LOOKS_AHEAD
        if (c < N) e[position(c)] = (float)(point_ahead<double>(lookahead, u[k], old[k]) - side * w0[c]);
#else
        if (c < N) e[position(c)] = (float)(u[k] - side * w0[c]);
#endif
    }
    if (threadIdx.x == 0) {
        *m = overlap;
        *sign = side;
        if (!is_number(overlap)) *live = 0, *diverged_at = step;
    }
    return is_number(overlap);
}

// One step of the weights, eq. [sgd-step], then what the pass of the next step needs. w0_apart: distance between teachers, 0
// when instances share one; settings: the numbers of all steps. chunks = 0: no step, only m and e at `step`; ahead = 1: e at the
// point ahead, where the rule looks ahead, 0: at w. ready: the step that an instance has reached. pushes: (instances, chunks) parts
// of the slope in the intercept b. before: weights of the step before, where a step needs them. All threads of a block.
__device__ inline void step_weights(i64 instance, i64 step, const double *settings, i64 lines, int ahead, const float *partial,
                                    int chunks, double *room, const double *pushes, double *b, double *before, double *w,
                                    const double *w0, i64 w0_apart,
                                    const u64 *thermal, float *e, double *m, double *sign, int *live,
                                    i64 *diverged_at, i64 *ready) {
    w += instance * N, w0 += instance * w0_apart, partial += instance * chunks * PADDED;
    double u[THREAD_COLUMNS], square = 0.0;
    const double *now = settings_of(settings, lines, step);
    const double keep = now[KEEP], rate = now[RATE], noise = chunks ? now[NOISE] : 0.0;
#if REMEMBERS
    double old[THREAD_COLUMNS];
    const double recoil = now[RECOIL], lookahead = now[LOOKAHEAD];
    before += instance * N;
#else
    const double *old = u;
#endif
#if INTERCEPT
    if (chunks && threadIdx.x == 0) {
        double total = 0.0;
        for (int chunk = 0; chunk < chunks; chunk++) total += fresh(pushes + instance * chunks + chunk);
        b[instance] = pushed<double>(fresh(b + instance), now[ETA], total, N);
    }
#endif
#pragma unroll
    for (int k = 0; k < THREAD_COLUMNS; k++) {
        int c = threadIdx.x + k * THREADS;
        u[k] = 0.0;
        if (c >= N) continue;
        u[k] = fresh(w + c);
#if REMEMBERS
        old[k] = fresh(before + c);
        if (chunks) {
            const double here = u[k];
            u[k] = moved<double>(keep, recoil, lookahead, rate, here, old[k], total_of(partial, chunks, c)); // [sgd-step]
            before[c] = old[k] = here;
        }
#else
        if (chunks) u[k] = moved<double>(keep, 0.0, 0.0, rate, u[k], 0.0, total_of(partial, chunks, c)); // [sgd-step]
#endif
        if (noise > 0.0) u[k] += noise * one_normal(thermal[instance], (u64)step, c); // [sgd-step]
        square += u[k] * u[k];
    }
    if (chunks) {
        if (RESCALES) {
            const double a_n = rescaling<double>(block_sum(square, room) / N);
#pragma unroll
            for (int k = 0; k < THREAD_COLUMNS; k++) u[k] *= a_n; // [sgd-step]
        }
#pragma unroll
        for (int k = 0; k < THREAD_COLUMNS; k++) {
            int c = threadIdx.x + k * THREADS;
            if (c < N) w[c] = u[k];
        }
    }
    if (chunks) step++;
    const bool continues = measure(u, old, ahead ? settings_of(settings, lines, step)[LOOKAHEAD] : 0.0, w0, step,
                                   e + instance * PADDED, m + instance, sign + instance, live + instance,
                                   diverged_at + instance, room);
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        release(ready + instance, continues ? step : NEVER_READY);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
update(i64 step, const double *settings, i64 lines, int ahead, const float *partial, int chunks, const double *pushes, double *b,
       double *before, double *w, const double *w0, i64 w0_apart, const u64 *thermal, float *e, double *m, double *sign, int *live,
       i64 *diverged_at, i64 *ready) {
    extern __shared__ double shared[];
    if (live[blockIdx.x])
        step_weights(blockIdx.x, step, settings, lines, ahead, partial, chunks, shared, pushes, b, before, w, w0, w0_apart, thermal,
                     e, m, sign, live, diverged_at, ready);
}

// Put m, loss, q, the error on fresh samples (and, where labels are not h0, the shares of wrong predictions on training and fresh
// samples, and the intercept) into curves[instance, :, column], and the AVERAGES of observables, where there are any, into its last
// rows; a loss or error that is no number ends the instance.
extern "C" __global__ void record(const double *w, const double *m, const double *fields, const double *h0, i64 apart, int rows,
                                  const double *test_fields, const double *test_h0, i64 test_apart, int tests,
                                  const double *b, const double *teacher, i64 step, double *curves, int column, int columns,
                                  int *live, i64 *diverged_at, i64 *ready) {
    extern __shared__ double shared[];
    const i64 instance = blockIdx.x;
    if (!live[instance]) return;
    w += instance * N, fields += instance * rows, h0 += instance * apart;
    test_fields += instance * tests, test_h0 += instance * test_apart, curves += instance * QUANTITIES * columns;
    double loss = 0.0, square = 0.0, error = 0.0, wrong = 0.0, wrong_fresh = 0.0;
    for (int i = threadIdx.x; i < rows; i += blockDim.x) {
        loss += loss_v<double>(fields[i], h0[i]);
        if (!ANCHORED) wrong += loss_is_wrong<double>(fields[i], h0[i]);
    }
    for (int i = threadIdx.x; i < N; i += blockDim.x) square += w[i] * w[i];
    for (int i = threadIdx.x; i < tests; i += blockDim.x) {
        double difference = miss<double>(test_fields[i], test_h0[i]);
        error += difference * difference;
        if (!ANCHORED) wrong_fresh += loss_is_wrong<double>(test_fields[i], test_h0[i]);
    }
    loss = block_sum(loss, shared) / rows;
    square = block_sum(square, shared) / N;
    error = block_sum(error, shared) / tests;
    if (!ANCHORED) wrong = block_sum(wrong, shared) / rows, wrong_fresh = block_sum(wrong_fresh, shared) / tests;
#ifdef AVERAGES
    double averaged[AVERAGES] = {}, values[AVERAGES];
    teacher += instance * apart;
    for (int i = threadIdx.x; i < rows; i += blockDim.x) {
        average_values(fields[i], h0[i], teacher[i], values);
        for (int k = 0; k < AVERAGES; k++) averaged[k] += values[k];
    }
    for (double &sum : averaged) sum = block_sum(sum, shared) / rows;
#endif
    if (threadIdx.x > 0) return;
    if (!is_number(loss + error)) {
        live[instance] = 0, diverged_at[instance] = step, ready[instance] = NEVER_READY;
        for (int quantity = 0; quantity < QUANTITIES; quantity++)
            for (int c = column; c < columns; c++) curves[quantity * columns + c] = (loss + error) - (loss + error);   // NaN
        return;
    }
    curves[M_ROW * columns + column] = m[instance];
    curves[LOSS_ROW * columns + column] = loss;
    curves[Q_ROW * columns + column] = square;
    curves[MSE_FRESH_ROW * columns + column] = error;
#ifdef AVERAGES
    for (int k = 0; k < AVERAGES; k++) curves[(QUANTITIES - AVERAGES + k) * columns + column] = averaged[k];
#endif
#if !ANCHORED
    curves[TRAINING_ERROR_ROW * columns + column] = wrong;
    curves[ERROR_FRESH_ROW * columns + column] = wrong_fresh;
    curves[B_ROW * columns + column] = b[instance];
#endif
}

// One step of the power iteration of the spectral start: w = e = w + c D w on the sphere, where the gradient is sqrt(N) D w;
// live = 0 when w has converged.
extern "C" __global__ void __launch_bounds__(THREADS)
power_step(double *w, const float *partial, int chunks, double c_step, double tolerance, float *e, int *live) {
    extern __shared__ double shared[];
    const i64 instance = blockIdx.x;
    if (!live[instance]) return;
    w += instance * N, partial += instance * chunks * PADDED, e += instance * PADDED;
    double u[THREAD_COLUMNS], square = 0.0, moved = 0.0;
#pragma unroll
    for (int k = 0; k < THREAD_COLUMNS; k++) {
        int c = threadIdx.x + k * THREADS;
        u[k] = c < N ? w[c] + c_step * ROOT * total_of(partial, chunks, c) : 0.0;
        square += u[k] * u[k];
    }
    const double scale = onto_sphere<double>(block_sum(square, shared) / N);
#pragma unroll
    for (int k = 0; k < THREAD_COLUMNS; k++) {
        int c = threadIdx.x + k * THREADS;
        if (c >= N) continue;
        u[k] *= scale;
        moved += (u[k] - w[c]) * (u[k] - w[c]);
        w[c] = u[k];
        e[position(c)] = (float)u[k];
    }
    moved = block_sum(moved, shared) / N;
    if (threadIdx.x == 0 && moved < tolerance * tolerance) live[instance] = 0;
}
