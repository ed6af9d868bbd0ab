// The samples of a mini-batch, as in sgd_sim/cpu/minibatch.py and with the same numbers.

enum { FULL, BERNOULLI, PERSISTENT, WITHOUT_REPLACEMENT, WITH_REPLACEMENT, EPOCHS };
// Modes of a pass: draw the mini-batch; take the fields of all rows; see `coefficient`; step the weights afterwards.
enum { DRAW = 1, ALL = 2, PRODUCT = 4, STEP = 8 };

// weight[0..count) for rows first, first + 1, ... (first: a multiple of 4); kept in s (rows of this instance) for the chain.
// pace: the numbers of the step.
__device__ inline void draw_rows(int batch, u64 stream, i64 step, int first, int count, const double *pace, unsigned char *s,
                                 unsigned char *weight) {
    const u64 enter = (u64)pace[ENTER], on = (u64)pace[ON], off = (u64)pace[OFF];
    for (int call = threadIdx.x; 4 * call < count; call += blockDim.x) {
        u64 a, b;
        philox(stream, (u64)step, (u64)(first / 4 + call), a, b);
        for (int k = 0; k < 4 && 4 * call + k < count; k++) {
            u64 pair = k / 2 ? b : a, word = k % 2 ? pair >> 32 : pair & 0xffffffffull;
            int row = 4 * call + k;
            bool in = word < enter;
            if (batch == PERSISTENT) {
                if (step > 0) in = fresh(s + first + row) ? word >= off : word < on;
                s[first + row] = in;
            }
            weight[row] = in;
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

// Mini-batches of a fixed number of rows for the steps first_step + blockIdx.y, into s (ahead, instances, rows) at
// step % ahead. draws: (steps, 3) first and last place of the mini-batch in an order of all rows, and the key of that order;
// with replacement only the number of rows counts. Grid (instances, steps). order: shared memory for `rows` integers or, if
// there is too little of it, scratch.
#define DRAWS 1024
extern "C" __global__ void draw_fixed_size(int batch, int rows, const i64 *draws, const u64 *streams, const int *live,
                                           i64 first_step, i64 last_step, int ahead, unsigned char *s, unsigned *scratch) {
    extern __shared__ double shared[];
    if (!live[blockIdx.x]) return;
    unsigned *drawn = (unsigned *)shared, *order = drawn + DRAWS;
    if (scratch) order = scratch + ((i64)blockIdx.y * gridDim.x + blockIdx.x) * rows;
    const i64 step = first_step + blockIdx.y;
    if (step >= last_step) return;
    const int first = (int)draws[3 * step], count = (int)draws[3 * step + 1];
    const u64 key = (u64)draws[3 * step + 2];
    unsigned char *weight = s + ((step % ahead) * gridDim.x + blockIdx.x) * rows;
    for (int i = threadIdx.x; i < rows; i += blockDim.x) order[i] = batch == WITH_REPLACEMENT ? 0 : i, weight[i] = 0;
    __syncthreads();
    for (int base = 0; base < count; base += DRAWS) {
        int here = min(DRAWS, count - base);
        for (int pair = threadIdx.x; 2 * pair < here; pair += blockDim.x) {
            double u[2];
            uniform2(streams[blockIdx.x], (u64)(base / 2 + pair), key, u[0], u[1]);
            for (int k = 2 * pair; k < min(2 * pair + 2, here); k++)
                drawn[k] = batch == WITH_REPLACEMENT ? (unsigned)(u[k % 2] * rows)
                                                     : base + k + (unsigned)(u[k % 2] * (rows - base - k));
        }
        __syncthreads();
        if (batch == WITH_REPLACEMENT) {
            for (int k = threadIdx.x; k < here; k += blockDim.x) atomicAdd(&order[drawn[k]], 1u);
        } else if (threadIdx.x == 0) {   // Fisher-Yates, one draw after the other
            for (int k = 0; k < here; k++) {
                unsigned j = drawn[k], taken = order[j];
                order[j] = order[base + k];
                order[base + k] = taken;
            }
        }
        __syncthreads();
    }
    if (batch == WITH_REPLACEMENT)
        for (int i = threadIdx.x; i < rows; i += blockDim.x) weight[i] = order[i];
    else
        for (int k = first + threadIdx.x; k < count; k += blockDim.x) weight[order[k]] = 1;
}
