// What happens to the weights between two passes, and what is recorded of them. One block of THREADS an instance.

#define COLUMNS ((N + THREADS - 1) / THREADS)   // of a thread

// Gradient of column c: the chunks, first to last.
__device__ inline double total_of(const float *partial, int chunks, int c) {
    const float *place = partial + position(c);
    double total = 0.0;
#pragma unroll 8
    for (int chunk = 0; chunk < chunks; chunk++) total += fresh(place + (i64)chunk * PADDED);
    return total;
}

// m, sign and e of weights u (a thread's columns of them) at a step; an overlap that is no number ends the instance. Whether
// it goes on.
__device__ inline bool measure(const double *u, const double *w0, i64 step, float *e, double *m, double *sign, int *live,
                               i64 *diverged_at, double *room) {
    double product = 0.0;
#pragma unroll
    for (int k = 0; k < COLUMNS; k++) {
        int c = threadIdx.x + k * THREADS;
        if (c < N) product += u[k] * w0[c];
    }
    const double overlap = block_sum(product, room) / N, side = overlap >= 0.0 ? 1.0 : -1.0;
#pragma unroll
    for (int k = 0; k < COLUMNS; k++) {
        int c = threadIdx.x + k * THREADS;
        if (c < N) e[position(c)] = (float)(u[k] - side * w0[c]);
    }
    if (threadIdx.x == 0) {
        *m = overlap;
        *sign = side;
        if (!is_number(overlap)) *live = 0, *diverged_at = step;
    }
    return is_number(overlap);
}

// One step of the weights, eq. [sgd-step], then what the pass of the next step needs. w0_apart: numbers between teachers, 0
// when instances share one; noise: sqrt(2 T eta). chunks = 0: no step, measure only, at `step`. ready: the step at which an
// instance stands. All threads of a block.
__device__ inline void step_weights(i64 instance, i64 step, double noise, const float *partial, int chunks, double *room,
                                    double *w, const double *w0, i64 w0_apart, double decay, double rate, const u64 *thermal,
                                    int sphere, float *e, double *m, double *sign, int *live, i64 *diverged_at, i64 *ready) {
    w += instance * N, w0 += instance * w0_apart, partial += instance * chunks * PADDED;
    double u[COLUMNS], square = 0.0;
#pragma unroll
    for (int k = 0; k < COLUMNS; k++) {
        int c = threadIdx.x + k * THREADS;
        u[k] = 0.0;
        if (c >= N) continue;
        u[k] = fresh(w + c);
        if (chunks) u[k] = decay * u[k] - rate * total_of(partial, chunks, c);
        if (noise > 0.0) u[k] += noise * one_normal(thermal[instance], (u64)step, c);
        square += u[k] * u[k];
    }
    if (chunks) {
        if (sphere) {
            const double a_n = 1.0 / sqrt(block_sum(square, room) / N);
#pragma unroll
            for (int k = 0; k < COLUMNS; k++) u[k] *= a_n;
        }
#pragma unroll
        for (int k = 0; k < COLUMNS; k++) {
            int c = threadIdx.x + k * THREADS;
            if (c < N) w[c] = u[k];
        }
    }
    if (chunks) step++;
    const bool goes_on = measure(u, w0, step, e + instance * PADDED, m + instance, sign + instance, live + instance,
                                 diverged_at + instance, room);
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        release(ready + instance, goes_on ? step : ENDED);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
update(i64 step, double noise, const float *partial, int chunks, double *w, const double *w0, i64 w0_apart, double decay,
       double rate, const u64 *thermal, int sphere, float *e, double *m, double *sign, int *live, i64 *diverged_at, i64 *ready) {
    extern __shared__ double shared[];
    if (live[blockIdx.x])
        step_weights(blockIdx.x, step, noise, partial, chunks, shared, w, w0, w0_apart, decay, rate, thermal, sphere, e, m, sign,
                     live, diverged_at, ready);
}

// m, loss, q and the error on fresh samples into curves[instance, :, column]; a loss that is no number ends the instance.
extern "C" __global__ void record(const double *w, const double *m, const double *fields, const double *h0, i64 apart, int rows,
                                  const double *test_fields, const double *test_h0, i64 test_apart, int tests, int absolute,
                                  i64 step, double *curves, int column, int columns, int *live, i64 *diverged_at, i64 *ready) {
    extern __shared__ double shared[];
    const i64 instance = blockIdx.x;
    if (!live[instance]) return;
    w += instance * N, fields += instance * rows, h0 += instance * apart;
    test_fields += instance * tests, test_h0 += instance * test_apart, curves += instance * 4 * columns;
    double loss = 0.0, square = 0.0, error = 0.0;
    for (int i = threadIdx.x; i < rows; i += blockDim.x) loss += loss_v<double>(fields[i], h0[i]);
    for (int i = threadIdx.x; i < N; i += blockDim.x) square += w[i] * w[i];
    for (int i = threadIdx.x; i < tests; i += blockDim.x) {
        double a = test_fields[i], b = test_h0[i], difference = absolute ? fabs(a) - fabs(b) : a - b;
        error += difference * difference;
    }
    loss = block_sum(loss, shared) / rows;
    square = block_sum(square, shared) / N;
    error = block_sum(error, shared) / tests;
    if (threadIdx.x > 0) return;
    if (!is_number(loss)) {
        live[instance] = 0, diverged_at[instance] = step, ready[instance] = ENDED;
        for (int quantity = 0; quantity < 4; quantity++)
            for (int c = column; c < columns; c++) curves[quantity * columns + c] = loss - loss;   // NaN
        return;
    }
    curves[column] = m[instance];
    curves[columns + column] = loss;
    curves[2 * columns + column] = square;
    curves[3 * columns + column] = error;
}

// One step of the power iteration of the spectral start: w = e = the gradient on the sphere; live = 0 when w has come to rest.
extern "C" __global__ void __launch_bounds__(THREADS)
power_step(double *w, const float *partial, int chunks, double tolerance, float *e, int *live) {
    extern __shared__ double shared[];
    const i64 instance = blockIdx.x;
    if (!live[instance]) return;
    w += instance * N, partial += instance * chunks * PADDED, e += instance * PADDED;
    double u[COLUMNS], square = 0.0, moved = 0.0;
#pragma unroll
    for (int k = 0; k < COLUMNS; k++) {
        int c = threadIdx.x + k * THREADS;
        u[k] = c < N ? total_of(partial, chunks, c) : 0.0;
        square += u[k] * u[k];
    }
    const double scale = 1.0 / sqrt(block_sum(square, shared) / N);
#pragma unroll
    for (int k = 0; k < COLUMNS; k++) {
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
