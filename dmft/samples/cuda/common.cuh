// What the kernels of samples on a GPU share, those of one unit (march.cu) and of a network (dmft/committee/cuda/units.cu): where a
// step goes, parts of blocks of samples, and what is done to the past of one sample.
//
// Put before this file: OWN, ACROSS (a part of a block of samples has OWN x ACROSS of them), NONE, and the struct Step
// (dmft/samples/written_steps.py), behind which lie order, merges and the slots that hold something afterwards.

#define PART (OWN * ACROSS) // samples of a part of a block, which are summed up together

// Where the numbers of this solution begin in an array with so many for each.
template <typename real> __device__ inline real *mine(real *array, long long each) { return array + blockIdx.z * each; }

// Slots that hold something before the step, in order of time, on which `next_tangents` relies: (slots,).
__device__ inline const long long *order_of(const Step *step) { return (const long long *)(step + 1); }

// (merges, 3): older, newer or NONE, into; the newest ones last.
__device__ inline const long long *merges_of(const Step *step, int slots) { return order_of(step) + slots; }

// The sample of a thread, in kernels with a thread for each sample of a part, and whether there is one. Their grid is (blocks
// parts, 1, solutions).
struct Own {
    long long i;
    bool there;
};
__device__ inline Own own_sample(int count, int width, int block, int parts) {
    const int begin = blockIdx.x / parts * block, i = begin + blockIdx.x % parts * PART + threadIdx.x;
    return {blockIdx.z * (long long)width + i, i < min(begin + block, count)};
}

// Where its sums go: out (solutions, blocks parts, columns).
__device__ inline double *own_sums(double *out, int columns) {
    return out + (blockIdx.z * (long long)gridDim.x + blockIdx.x) * columns;
}

// out (blocks, columns) = sum over parts of in (blocks, parts, columns), in order. Grid (blocks, any number, solutions).
extern "C" __global__ void add_parts(const int *on, int parts, int columns, const double *in, double *out) {
    if (!on[blockIdx.z]) return;
    in = mine(in, (long long)gridDim.x * parts * columns), out = mine(out, (long long)gridDim.x * columns);
    for (int c = blockIdx.y * blockDim.x + threadIdx.x; c < columns; c += gridDim.y * blockDim.x) {
        double sum = 0.0;
        for (int p = 0; p < parts; p++) sum += in[((long long)blockIdx.x * parts + p) * columns + c];
        out[(long long)blockIdx.x * columns + c] = sum;
    }
}

// Merge blocks in the past of one sample, whose slots are `stride` apart. Slots that hold nothing any more keep what they had, here
// and in the rows of the tangents: nobody reads them before they are filled again.
template <typename real> __device__ inline void merge_past(real *v, long long stride, int merges, const long long *merge) {
    for (int k = 0; k < merges; k++) {
        const long long older = merge[3 * k], newer = merge[3 * k + 1], into = merge[3 * k + 2];
        const real moved = v[older * stride];
        v[into * stride] = newer == NONE ? moved : moved + v[newer * stride]; // [dyadic]
    }
}
