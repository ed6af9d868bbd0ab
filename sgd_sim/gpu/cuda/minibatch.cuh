// The samples of a mini-batch, as in sgd_sim/kernels/minibatch.py and with the same numbers.
//
// Mini-batches do not depend on the weights: they are drawn for several steps at a time, before the passes that use them, into
// s (ring, instances, rows), that of a step at step % ring.

// Mini-batches of independent rows for the steps from first_step to last_step; the chain continues from that of the step before.
// A thread draws four rows. Grid (rows / 4 / threads, instances).
extern "C" __global__ void draw_rows(int batch, int rows, const u64 *streams, const int *live, i64 first_step, i64 last_step,
                                     int ring, const double *settings, i64 lines, unsigned char *s) {
    const int call = blockIdx.x * blockDim.x + threadIdx.x, here = min(4, rows - 4 * call);
    if (here <= 0 || !live[blockIdx.y]) return;
    const i64 apart = (i64)gridDim.y * rows;
    s += (i64)blockIdx.y * rows + 4 * call;
    bool in[4];
    for (int k = 0; k < here; k++) in[k] = s[(first_step + ring - 1) % ring * apart + k];
    for (i64 step = first_step; step < last_step; step++) {
        const double *now = settings_of(settings, lines, step);
        const u64 enter = (u64)now[ENTER], on = (u64)now[SWITCH_ON], off = (u64)now[SWITCH_OFF];
        const bool fresh = batch == BERNOULLI || step == 0;
        u64 a, b;
        philox(streams[blockIdx.y], (u64)step, (u64)call, a, b);
        for (int k = 0; k < here; k++) {
            u64 pair = k / 2 ? b : a, word = k % 2 ? pair >> 32 : pair & 0xffffffffull;
            in[k] = next_in<double>(fresh, in[k], word, enter, on, off);
            s[step % ring * apart + k] = in[k];
        }
    }
}

// Rows of a chunk to visit, those of the mini-batch first, in order; the others follow if all are wanted (their
// coefficient is 0, so their order changes no number). One warp; returns how many.
__device__ inline int list_rows(const unsigned char *weight, int count, bool all, unsigned short *list) {
    const int lane = threadIdx.x % LANES;
    int end = 0;
    for (int others = 0; others <= (all ? 1 : 0); others++)
        for (int base = 0; base < count; base += LANES) {
            int row = base + lane;
            bool chosen = row < count && (weight[row] > 0) != (others > 0);
            unsigned votes = __ballot_sync(ALL_LANES, chosen);
            if (chosen) list[end + __popc(votes & ((1u << lane) - 1))] = row;
            end += __popc(votes);
        }
    return end;
}

// The swaps k = first..last of Fisher and Yates: place k with a place j >= k. A place is left alone once it was k, so it is enough
// to know the last swap that met a place as its j: met[j] = 1 + k, 0 for none.
__device__ inline void swap_places(u64 stream, u64 key, int first, int last, int rows, unsigned *met) {
    for (int pair = first / 2 + threadIdx.x; 2 * pair < last; pair += blockDim.x) {
        double u[2];
        uniform2(stream, (u64)pair, key, u[0], u[1]);
        for (int k = max(2 * pair, first); k < min(2 * pair + 2, last); k++) {
            int j = k + (int)(u[k % 2] * (rows - k));
            if (j != k) atomicMax(&met[j], k + 1u);
        }
    }
    __syncthreads();
}

// Set the weights of the rows at the places from `place` on. Swap k brought what lay at place k until then, so the way back leads
// from place to place until one that no swap had met.
__device__ inline void weigh_places(int place, int rows, const unsigned *met, unsigned char value, unsigned char *weight) {
    for (int i = place + threadIdx.x; i < rows; i += blockDim.x) {
        int row = i;
        while (met[row]) row = met[row] - 1;
        weight[row] = value;
    }
    __syncthreads();
}

// Mini-batches of a fixed number of rows for the steps first_step + blockIdx.y. draws: (steps, 3) first and last place of the
// mini-batch in an order of all rows, and the key of that order; with replacement only the number of rows counts. Grid (instances,
// steps). met: shared memory for `rows` integers or, if there is too little of it, scratch.
extern "C" __global__ void draw_fixed_size(int batch, int rows, const i64 *draws, const u64 *streams, const int *live,
                                           i64 first_step, i64 last_step, int ring, unsigned char *s, unsigned *scratch) {
    extern __shared__ double shared[];
    const i64 step = first_step + blockIdx.y;
    if (!live[blockIdx.x] || step >= last_step) return;
    unsigned *met = scratch ? scratch + ((i64)blockIdx.y * gridDim.x + blockIdx.x) * rows : (unsigned *)shared;
    const int first = (int)draws[3 * step], last = (int)draws[3 * step + 1];
    const u64 key = (u64)draws[3 * step + 2], stream = streams[blockIdx.x];
    unsigned char *weight = s + ((step % ring) * gridDim.x + blockIdx.x) * rows;
    for (int i = threadIdx.x; i < rows; i += blockDim.x) met[i] = 0, weight[i] = 0;
    __syncthreads();
    if (batch == WITH_REPLACEMENT) {
        for (int pair = threadIdx.x; 2 * pair < last; pair += blockDim.x) {
            double u[2];
            uniform2(stream, (u64)pair, key, u[0], u[1]);
            for (int k = 0; k < min(2, last - 2 * pair); k++) atomicAdd(&met[(int)(u[k] * rows)], 1u);
        }
        __syncthreads();
        for (int i = threadIdx.x; i < rows; i += blockDim.x) weight[i] = met[i];
        return;
    }
    swap_places(stream, key, 0, first, rows, met);
    weigh_places(first, rows, met, 1, weight);   // not among the rows before the mini-batch
    swap_places(stream, key, first, last, rows, met);
    weigh_places(last, rows, met, 0, weight);    // nor among those after it
}
