// Products of lines with the matrices of the macroscopic equations, which dmft/committee/card_matrices.py keeps on a card.
//
// It puts before this file lanes.cuh and
//   UNITS          p, the number of lines of a product
//   LANES, WARPS_OF_BLOCK  threads of a warp, warps of a block of threads
//   ROWS_OF_BLOCK  rows of a matrix that a block of threads takes
//   WHOLE, UPTO, FROM  entries of a row that count: all, those up to its diagonal, those from there on
//   NO_LINES       in place of lines that are added to
//   HEAD, PLACES   numbers before the lines of what the host has sent; matrices that it has new rows for
//
// Matrices are (size, size), one after the other: Q, then R, the inverses W of two lower Cholesky factors and one of these factors,
// each with its transpose, so that every product goes along rows. A number is a sum in an order that depends on its place alone.

#define MATRIX_THREADS (LANES * WARPS_OF_BLOCK)

// results_t = lines_b + sign lines_s M^T, each (UNITS, size), for every task (s, which M, entries that count, t, b, sign); 0 from
// sent[0] on, the size of the past. Lines are among those that were sent, or results -1-s of an earlier launch.
// Grid (groups of rows, tasks).
extern "C" __global__ void __launch_bounds__(MATRIX_THREADS)
    products(int size, const int *tasks, const double *matrices, const double *sent, double *results) {
    extern __shared__ __align__(16) double shared[];
    const int *task = tasks + 6 * blockIdx.y, past = (int)sent[0], first = blockIdx.x * ROWS_OF_BLOCK;
    const long long lines = (long long)UNITS * size;
    const auto of = [=](int which) {
        return which < 0 ? (const double *)results + (-1 - which) * lines : sent + HEAD + which * lines;
    };
    const double *x = of(task[0]);
    const double *rows = matrices + (long long)task[1] * size * size;
    const int begin = task[2] == FROM ? first / MATRIX_THREADS * MATRIX_THREADS : 0;
    const int end = task[2] == UPTO ? min(first + ROWS_OF_BLOCK, past) : past;
    double sums[ROWS_OF_BLOCK * UNITS] = {};
    if (first < past)
#pragma unroll 2
        for (int k = begin + threadIdx.x; k < end; k += MATRIX_THREADS) {
            double there[ROWS_OF_BLOCK], own[UNITS];
#pragma unroll
            for (int row = 0; row < ROWS_OF_BLOCK; row++) there[row] = rows[(long long)(first + row) * size + k];
#pragma unroll
            for (int r = 0; r < UNITS; r++) own[r] = x[(long long)r * size + k];
#pragma unroll
            for (int e = 0; e < ROWS_OF_BLOCK * UNITS; e++) sums[e] += there[e / UNITS] * own[e % UNITS];
        }
    double *met = shared + threadIdx.x / LANES * (ROWS_OF_BLOCK * UNITS);
    lane_sums(sums, [=](int index, double sum) { met[index] = sum; });
    __syncthreads();
    for (int e = threadIdx.x; e < ROWS_OF_BLOCK * UNITS; e += MATRIX_THREADS) {
        const int j = first + e / UNITS;
        const long long place = (long long)(e % UNITS) * size + j;
        double sum = 0.0;
        for (int warp = 0; warp < WARPS_OF_BLOCK; warp++) sum += shared[warp * ROWS_OF_BLOCK * UNITS + e];
        if (task[4] != NO_LINES) sum = of(task[4])[place] + task[5] * sum;
        results[task[3] * lines + place] = j < past ? sum : 0.0;
    }
}

// Rows of a step, (UNITS, size) for each of Q, R, the two W and the factor, that go into their matrices from row news[which] on
// (not if that is negative), and as columns into the transposed ones. Grid (columns, PLACES).
extern "C" __global__ void enter_rows(int size, const double *news, double *matrices) {
    const int which = blockIdx.y, at = (int)news[which], j = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < 0 || j >= at + UNITS) return;
    const long long each = (long long)size * size;
    double *rows = matrices + (which ? 2 * which - 1 : 0) * each, *columns = matrices + 2 * which * each;
    const double *from = news + HEAD + (long long)which * UNITS * size;
    for (int r = 0; r < UNITS; r++) {
        const double value = from[(long long)r * size + j];
        rows[(long long)(at + r) * size + j] = value;
        if (which || j < at) columns[(long long)j * size + at + r] = value; // Q is its own transpose
    }
}
