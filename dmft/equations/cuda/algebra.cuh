// Products, solves and merges of the equations of a step by one block of threads: what dmft/equations/noise.py, recursion.py and
// blocks.py have as loops, under the same names. The equations themselves are translated (dmft/equations/on_card.py). Every function
// is called by all threads, ends with a barrier, and gives all of them the same number.
//
// Put before this file: block_cuda.CELL_TYPES, block_spread_within (translated), enums of the rows of tables, NONE.

#define LANES 32
#define ALL_LANES 0xffffffffu
#define ROWS_AT_ONCE 4 // of a product, whose loads are under way together

__device__ inline int my_warp() { return threadIdx.x / LANES; }
__device__ inline int my_lane() { return threadIdx.x % LANES; }
__device__ inline int all_warps() { return blockDim.x / LANES; }

__device__ inline double warp_sum(double mine) {
    for (int step = LANES / 2; step > 0; step /= 2) mine += __shfl_xor_sync(ALL_LANES, mine, step);
    return mine;
}

// The sum over all threads. Scratch: one number a warp.
__device__ inline double block_sum(double mine) {
    extern __shared__ __align__(16) double shared[];
    mine = warp_sum(mine);
    if (my_lane() == 0) shared[my_warp()] = mine;
    __syncthreads();
    double sum = 0.0;
    for (int w = 0; w < all_warps(); w++) sum += shared[w];
    __syncthreads(); // the scratch is free again
    return sum;
}

template <typename A, typename B> __device__ double dot(Line<A> a, Line<B> b, long long n) {
    double mine = 0.0;
    for (long long k = threadIdx.x; k < n; k += blockDim.x) mine += a[k] * b[k];
    return block_sum(mine);
}

__device__ inline double total(Line<double> a, long long n) {
    double mine = 0.0;
    for (long long k = threadIdx.x; k < n; k += blockDim.x) mine += a[k];
    return block_sum(mine);
}

__device__ inline double larger_or_none(double one, double other) { return other > one || other != other ? other : one; }

__device__ inline double largest(Line<double> a, long long n) {
    extern __shared__ __align__(16) double shared[];
    double mine = 0.0;
    for (long long k = threadIdx.x; k < n; k += blockDim.x) mine = larger_or_none(mine, a[k]);
    for (int step = LANES / 2; step > 0; step /= 2) mine = larger_or_none(mine, __shfl_xor_sync(ALL_LANES, mine, step));
    if (my_lane() == 0) shared[my_warp()] = mine;
    __syncthreads();
    double found = 0.0;
    for (int w = 0; w < all_warps(); w++) found = larger_or_none(found, shared[w]);
    __syncthreads();
    return found;
}

// A warp for each row, several of them at a time.
__device__ inline void row_products(double scale, Table<double> A, Line<double> v, Line<long long> stop, long long used,
                                    Line<double> out) {
    for (long long first = ROWS_AT_ONCE * my_warp(); first < used; first += ROWS_AT_ONCE * all_warps()) {
        double sums[ROWS_AT_ONCE];
        long long ends[ROWS_AT_ONCE], end = 0;
#pragma unroll
        for (int r = 0; r < ROWS_AT_ONCE; r++) {
            sums[r] = 0.0, ends[r] = first + r < used ? stop[first + r] : 0;
            end = ends[r] > end ? ends[r] : end;
        }
        for (long long k = my_lane(); k < end; k += LANES) {
            const double weight = v[k];
#pragma unroll
            for (int r = 0; r < ROWS_AT_ONCE; r++)
                if (k < ends[r]) sums[r] += A[first + r][k] * weight;
        }
#pragma unroll
        for (int r = 0; r < ROWS_AT_ONCE; r++) sums[r] = warp_sum(sums[r]);
        if (my_lane() == 0)
            for (int r = 0; r < ROWS_AT_ONCE && first + r < used; r++) out[first + r] = scale * sums[r];
    }
    __syncthreads();
}

// A thread for each column, and several threads for one where there are enough: each takes a share of the rows. Scratch: one
// number a thread.
__device__ inline void add_rows(double scale, Line<double> weights, Table<double> A, long long used, Line<double> out) {
    extern __shared__ __align__(16) double shared[];
    const int wide = (int)min((used + LANES - 1) / LANES * LANES, (long long)blockDim.x), shares = wide ? blockDim.x / wide : 0;
    const int column = wide ? threadIdx.x % wide : 0, share = wide ? threadIdx.x / wide : 0;
    for (long long first = 0; first < used; first += wide) {
        const long long j = first + column;
        double sum = 0.0;
        if (share < shares && j < used) {
#pragma unroll 8
            for (long long i = share; i < used; i += shares) sum += weights[i] * A[i][j];
        }
        shared[threadIdx.x] = sum;
        __syncthreads();
        if (share == 0 && j < used) {
            for (int s = 1; s < shares; s++) sum += shared[s * wide + column];
            out[j] += scale * sum;
        }
        __syncthreads();
    }
}

// The same: beyond their ends rows are zero.
__device__ inline void add_short_rows(double scale, Line<double> weights, Table<double> A, Line<long long>, long long used,
                                      Line<double> out) {
    add_rows(scale, weights, A, used, out);
}

// Substitution in groups of LANES unknowns: what the groups before contribute is summed up by all warps, then one warp for each line
// goes through the group. Rows of L are divided by their diagonals beforehand, so that one product and one shuffle lie between two
// unknowns.
__device__ inline void forward(Table<double> L, Table<double> x, long long n) {
    for (long long first = 0; first < n; first += LANES) {
        const int group = (int)min((long long)LANES, n - first);
        if (first) {
            for (int r = my_warp(); r < group; r += all_warps()) {
                const Line<double> row = L[first + r];
                for (int line = 0; line < x.size; line++) {
                    double sum = 0.0;
                    for (long long k = my_lane(); k < first; k += LANES) sum += row[k] * x[line][k];
                    sum = warp_sum(sum);
                    if (my_lane() == 0) x[line][first + r] -= sum;
                }
            }
            __syncthreads();
        }
        for (int line = my_warp(); line < x.size; line += all_warps()) {
            const int lane = my_lane();
            const bool there = lane < group;
            const Line<double> row = L[there ? first + lane : first];
            const double scale = there ? 1.0 / row[first + lane] : 0.0;
            double own[LANES], value = there ? x[line][first + lane] * scale : 0.0;
#pragma unroll
            for (int k = 0; k < LANES; k++) own[k] = k < lane && there ? row[first + k] * scale : 0.0;
#pragma unroll
            for (int k = 0; k < LANES; k++) value -= own[k] * __shfl_sync(ALL_LANES, value, k);
            if (there) x[line][first + lane] = value;
        }
        __syncthreads();
    }
}

// L^T y = x, from the last group on. Scratch: one number a thread for each of two lines.
__device__ inline void backward(Table<double> L, Table<double> x, long long n) {
    extern __shared__ __align__(16) double shared[];
    for (long long first = (n + LANES - 1) / LANES * LANES - LANES; first >= 0; first -= LANES) {
        const int group = (int)min((long long)LANES, n - first), lane = my_lane();
        const bool there = lane < group, later = first + LANES < n;
        if (later) {
            for (int line = 0; line < x.size; line++) {
                double sum = 0.0;
#pragma unroll 4
                for (long long i = first + LANES + my_warp(); i < n; i += all_warps()) sum += L[i][first + lane] * x[line][i];
                shared[line * blockDim.x + threadIdx.x] = sum;
            }
            __syncthreads();
        }
        for (int line = my_warp(); line < x.size; line += all_warps()) {
            double own[LANES], value = there ? x[line][first + lane] : 0.0;
            if (later)
                for (int w = 0; w < all_warps(); w++) value -= shared[line * blockDim.x + w * LANES + lane];
            const double scale = there ? 1.0 / L[first + lane][first + lane] : 0.0;
            value *= scale;
#pragma unroll
            for (int k = 0; k < LANES; k++) own[k] = k > lane && k < group ? L[first + k][first + lane] * scale : 0.0;
#pragma unroll
            for (int k = LANES - 1; k >= 0; k--) value -= own[k] * __shfl_sync(ALL_LANES, value, k);
            if (there) x[line][first + lane] = value;
        }
        __syncthreads();
    }
}

// A thread for each row from `at` on; there must not be more of these. Scratch: four numbers.
__device__ inline long long join_rows(Table<double> L, long long valid, long long at) {
    extern __shared__ __align__(16) double shared[];
    if (at + 1 >= valid) return min(valid, at);
    for (long long k = threadIdx.x; k < valid; k += blockDim.x) {
        const long long first = k > at ? k - 1 : at;
        double kept = k <= at ? L[at][k] : 0.0;
        for (long long i = first; i < valid - 1; i++) {
            L[i][k] = L[i + 1][k] + kept;
            kept = 0.0;
        }
    }
    __syncthreads();
    const long long i = at + threadIdx.x;
    const bool there = i < valid - 1;
    double carry = there ? L[i][at] : 0.0;
    for (long long c = at; c < valid - 1; c++) {
        double *turn = shared + 2 * (c & 1);
        const double right = there && i >= c ? L[i][c + 1] : 0.0;
        if (i == c) {
            const double size = hypot(carry, right);
            turn[0] = carry / size, turn[1] = right / size;
        }
        __syncthreads();
        if (there && i >= c) {
            L[i][c] = turn[0] * carry + turn[1] * right;
            carry = turn[0] * right - turn[1] * carry;
            if (i == c) L[i][c + 1] = 0.0;
        }
    }
    __syncthreads();
    return valid - 1;
}

__device__ inline void merge_vector(Line<double> v, long long older, long long newer, long long into) {
    __syncthreads();
    if (threadIdx.x == 0) {
        double total = v[older];
        v[older] = 0.0;
        if (newer != NONE) total += v[newer], v[newer] = 0.0;
        v[into] = total;
    }
    __syncthreads();
}

__device__ inline void merge_matrix(Table<double> A, long long older, long long newer, long long into) {
    const auto merge = [&](double *first, double *second, double *both) {
        double total = *first;
        *first = 0.0;
        if (newer != NONE) total += *second, *second = 0.0;
        *both = total;
    };
    __syncthreads();
    for (long long i = threadIdx.x; i < A.size; i += blockDim.x) merge(&A[i][older], newer == NONE ? nullptr : &A[i][newer], &A[i][into]);
    __syncthreads();
    for (long long j = threadIdx.x; j < A.size; j += blockDim.x) merge(&A[older][j], newer == NONE ? nullptr : &A[newer][j], &A[into][j]);
    __syncthreads();
}

// By what the host found out about neighbours (on_card.py): first the spread within every block, then what every block gets from
// those that count it among their neighbours, in order of time.
__device__ inline void kernel_weights(const Rule &rule, const Blocks &blocks, Line<double> sums, Line<double> out) {
    const Line<long long> order = blocks.slots[IN_ORDER], size = blocks.slots[SIZE];
    const long long count = rule.slopes ? blocks.counts.blocks : 0;
    __syncthreads();
    for (long long slot = threadIdx.x; slot < out.size; slot += blockDim.x)
        out[slot] = sums[slot] / (size[slot] > 1 ? size[slot] : 1);
    for (long long i = threadIdx.x; i < count; i += blockDim.x) {
        const long long steps = rule.beside[STEPS][i], newer = rule.beside[STEPS_NEWER][i];
        double before = 0.0, after = 0.0;
        for (long long k = rule.beside[OLDEST][i]; k < i; k++) before += sums[order[k]];
        for (long long k = i + 1; k <= rule.beside[NEWEST][i]; k++) after += sums[order[k]];
        rule.spread[i] = steps || newer ? block_spread_within<double>(size[order[i]], steps, newer, rule.shares[TO_OLDER][i],
                                                                rule.shares[TO_NEWER][i], sums[order[i]], before, after) : 0.0;
    }
    __syncthreads();
    for (long long p = threadIdx.x; p < count; p += blockDim.x) {
        double found = out[order[p]];
        for (long long i = rule.beside[REACH_FROM][p]; i <= rule.beside[REACH_TO][p]; i++) {
            const long long steps = rule.beside[STEPS][i], newer = rule.beside[STEPS_NEWER][i];
            if (!steps && !newer) continue;
            const double spread = rule.spread[i];
            if (i == p) found -= (rule.shares[TO_OLDER][i] + rule.shares[TO_NEWER][i]) * spread / size[order[i]];
            else if (rule.beside[OLDEST][i] <= p && p < i) found += rule.shares[TO_OLDER][i] * spread / steps;
            else if (i < p && p <= rule.beside[NEWEST][i]) found += rule.shares[TO_NEWER][i] * spread / newer;
        }
        out[order[p]] = found;
    }
    __syncthreads();
}
