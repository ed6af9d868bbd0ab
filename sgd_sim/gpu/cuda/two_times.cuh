// Two-time quantities: products of weights and gradients with those of kept steps, and the push of second copies. Eq. [sim-pairs].
// One block of 128 threads for every kept step (x) and instance (y). values: (instances, 3, columns, kept); steps: kept ones.

// C(t, t') and the part of w_t along z(t'); weights of a kept step are put into kept_w (instances, kept, N).
extern "C" __global__ void pair_weights(i64 step, int column, int columns, const i64 *steps, const float *probes, const int *live,
                                        const double *w, float *kept_w, double *values) {
    extern __shared__ double shared[];
    const i64 j = blockIdx.x, instance = blockIdx.y, kept = gridDim.x;
    if (!live[instance] || steps[j] > step) return;
    w += instance * N, kept_w += (instance * kept + j) * N, probes += j * N;
    double total = 0.0, along = 0.0, square = 0.0;
    for (int i = threadIdx.x; i < N; i += blockDim.x) {
        if (steps[j] == step) kept_w[i] = (float)w[i];
        total += w[i] * kept_w[i];
        along += probes[i] * w[i];
        square += probes[i] * probes[i];
    }
    total = block_sum(total, shared);
    along = block_sum(along, shared);
    square = block_sum(square, shared);
    if (threadIdx.x > 0) return;
    values += instance * PAIR_ROWS * columns * kept + column * kept + j;
    values[PAIR_WEIGHTS * columns * kept] = total / N; // [sim-pairs]
    values[PAIR_PROBES * columns * kept] = steps[j] < step ? along / square : 0.0; // [sim-pairs]
}

// M_C(t, t'), from the fields of all rows; gradients of a kept step are put into kept_g (instances, kept, rows). s: the mini-batch
// of this step (instances, rows), none: all rows; spread: of the rows of each landscape, `apart` rows after the previous one.
extern "C" __global__ void pair_gradients(i64 step, int column, int columns, const i64 *steps, const int *live, double scale,
                                          const double *fields, const double *h0, const double *spread, i64 apart, int rows,
                                          const unsigned char *s, float *kept_g, double *values) {
    extern __shared__ double shared[];
    const i64 j = blockIdx.x, instance = blockIdx.y, kept = gridDim.x;
    if (!live[instance] || steps[j] > step) return;
    fields += instance * rows, h0 += instance * apart, kept_g += (instance * kept + j) * rows;
    if (s) s += instance * rows;
    if (spread) spread += instance * apart;
    double total = 0.0;
    for (int i = threadIdx.x; i < rows; i += blockDim.x) {
        const int weight = s ? s[i] : 1;
        const float g = weight ? (float)((spread ? spread[i] : 1.0) *
                                         coefficient<double>(scale, weight, loss_dv<double>(fields[i], h0[i])))
                               : 0.0f;
        if (steps[j] == step) kept_g[i] = g;
        total += (double)g * kept_g[i];
    }
    total = block_sum(total, shared);
    if (threadIdx.x == 0)
        values[((instance * PAIR_ROWS + PAIR_GRADIENTS) * columns + column) * kept + j] = total / N; // [sim-pairs]
}

// The push of a kept step, as a part of the gradient of the first chunk. rate: what gradients are multiplied by.
extern "C" __global__ void push(i64 step, const i64 *steps, const float *probes, const double *force, double rate, int chunks,
                                float *partial) {
    const i64 j = blockIdx.x, instance = blockIdx.y;
    if (steps[j] != step || force[instance] == 0.0) return;
    for (int i = threadIdx.x; i < N; i += blockDim.x)
        partial[instance * chunks * PADDED + position(i)] -= (float)(force[instance] / rate * probes[j * N + i]);
}
