// Products, solves and merges of the equations of a step by one block of threads: what dmft/equations/noise.py, recursion.py and
// blocks.py have as loops, under the same names. The equations themselves are translated (dmft/equations/on_card.py). Every function
// is called by all threads, ends with a barrier, and gives all of them the same number.
//
// Put before this file: block_cuda.CELL_TYPES, block_spread_within (translated), enums of the rows of tables, NONE, LANES.

#define ALL_LANES 0xffffffffu
// Numbers of a matrix that a thread loads before it uses the first of them: a card takes longer to answer than to compute. A load that
// depends on a condition would hold up the next one, so that what lies beyond an end is not left out: the last number before it is
// loaded, and has no weight.
#define ROWS_LOADED 3
#define COLUMNS_LOADED 6
#define IN_FLIGHT 16
#define SOLVE_GROUP 16 // unknowns of a solve that one warp goes through before the others take it on
#define SOLVE_SHARES 4 // threads that work out together what a group of unknowns contributes to a later one

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
__device__ __noinline__ void row_products(double scale, Table<double> A, Line<double> v, Line<long long> stop, long long used,
                                          Line<double> out) {
    const int rows = (int)used, width = (int)A.width;
    for (int first = ROWS_LOADED * my_warp(); first < rows; first += ROWS_LOADED * all_warps()) {
        double sums[ROWS_LOADED];
        int ends[ROWS_LOADED], end = 0;
#pragma unroll
        for (int r = 0; r < ROWS_LOADED; r++) {
            sums[r] = 0.0, ends[r] = first + r < rows ? (int)stop[first + r] : 0;
            end = max(end, ends[r]);
        }
        for (int from = my_lane(); from < end; from += COLUMNS_LOADED * LANES) {
            double loaded[ROWS_LOADED][COLUMNS_LOADED];
#pragma unroll
            for (int r = 0; r < ROWS_LOADED; r++)
#pragma unroll
                for (int c = 0; c < COLUMNS_LOADED; c++)
                    loaded[r][c] = A.at[min(first + r, rows - 1) * width + min(from + c * LANES, end - 1)];
#pragma unroll
            for (int c = 0; c < COLUMNS_LOADED; c++) {
                const int k = from + c * LANES;
                const double weight = v[min(k, end - 1)];
#pragma unroll
                for (int r = 0; r < ROWS_LOADED; r++) sums[r] += k < ends[r] ? loaded[r][c] * weight : 0.0;
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS_LOADED; r++) sums[r] = warp_sum(sums[r]);
        if (my_lane() == 0)
            for (int r = 0; r < ROWS_LOADED && first + r < rows; r++) out[first + r] = scale * sums[r];
    }
    __syncthreads();
}

// A thread for each column, and several threads for one where there are enough: each takes a share of the rows. Scratch: one
// number a thread.
__device__ __noinline__ void add_rows(double scale, Line<double> weights, Table<double> A, long long used, Line<double> out) {
    extern __shared__ __align__(16) double shared[];
    const int rows = (int)used, width = (int)A.width, wide = min((rows + LANES - 1) / LANES * LANES, (int)blockDim.x);
    const int shares = wide ? blockDim.x / wide : 0, column = wide ? threadIdx.x % wide : 0, share = wide ? threadIdx.x / wide : 0;
    for (int first = 0; first < rows; first += wide) {
        const int j = first + column;
        double sum = 0.0;
        for (int from = share; share < shares && from < rows; from += IN_FLIGHT * shares) {
            double loaded[IN_FLIGHT];
#pragma unroll
            for (int r = 0; r < IN_FLIGHT; r++) loaded[r] = A.at[min(from + r * shares, rows - 1) * width + min(j, rows - 1)];
#pragma unroll
            for (int r = 0; r < IN_FLIGHT; r++) {
                const int i = from + r * shares;
                sum += i < rows ? weights[min(i, rows - 1)] * loaded[r] : 0.0;
            }
        }
        shared[threadIdx.x] = sum;
        __syncthreads();
        if (share == 0 && j < rows) {
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

// The lines of x in shared memory while a solve is at work on them, where there is room: one number a thread for each of two lines.
__device__ inline Table<double> at_hand(Table<double> x, long long n) {
    extern __shared__ __align__(16) double shared[];
    if (n > blockDim.x || x.size > 2) return x;
    for (int line = 0; line < x.size; line++)
        if (threadIdx.x < n) shared[line * blockDim.x + threadIdx.x] = x[line][threadIdx.x];
    __syncthreads();
    return {shared, x.size, (long long)blockDim.x};
}
__device__ inline void put_back(Table<double> y, Table<double> x, long long n) {
    for (int line = 0; y.at != x.at && line < x.size; line++)
        if (threadIdx.x < n) x[line][threadIdx.x] = y[line][threadIdx.x];
    __syncthreads();
}

// Substitution in groups of SOLVE_GROUP unknowns, along L (DOWN) or along its transpose, from the last group on. One warp for each
// line goes through a group, which is divided by its diagonal beforehand, so that one product and one shuffle lie between two
// unknowns. Then all threads take what the group contributes off the unknowns to come. What is read of L does not depend on them, and
// is under way before it is wanted.
template <bool DOWN> __device__ __noinline__ void substitute(Table<double> L, Table<double> lines, long long unknowns) {
    const Table<double> x = at_hand(lines, unknowns);
    const int n = (int)unknowns, width = (int)L.width, groups = (n + SOLVE_GROUP - 1) / SOLVE_GROUP;
    const int lane = my_lane(), line = my_warp();
    const int share = threadIdx.x % SOLVE_SHARES, mine = threadIdx.x / SOLVE_SHARES, others = blockDim.x / SOLVE_SHARES;
    const bool goes = line < x.size;
    double own[SOLVE_GROUP], pivot = 1.0;
    const auto load_group = [&](int first) {
        const int me = min(first + lane, n - 1);
        pivot = L.at[me * width + me];
        int place = DOWN ? me * width + first : first * width + me;
#pragma unroll
        for (int k = 0; k < SOLVE_GROUP; k++) {
            own[k] = L.at[place];
            place += first + k + 1 < n ? (DOWN ? 1 : width) : 0;
        }
    };
    if (goes) load_group(DOWN ? 0 : (groups - 1) * SOLVE_GROUP);
    for (int g = 0; g < groups; g++) {
        const int first = (DOWN ? g : groups - 1 - g) * SOLVE_GROUP, from = first + share * (SOLVE_GROUP / SOLVE_SHARES);
        const int begin = DOWN ? first + SOLVE_GROUP : 0, end = DOWN ? n : first; // of the unknowns to come
        double panel[SOLVE_GROUP / SOLVE_SHARES];
        const auto load_panel = [&](int to) {
            const int row = min(to, n - 1), column = min(from, n - 1);
            int place = DOWN ? row * width + column : column * width + row;
#pragma unroll
            for (int k = 0; k < SOLVE_GROUP / SOLVE_SHARES; k++) {
                panel[k] = L.at[place];
                place += from + k + 1 < n ? (DOWN ? 1 : width) : 0;
            }
        };
        load_panel(begin + mine);
        if (goes) {
            const bool there = lane < SOLVE_GROUP && first + lane < n;
            const double scale = 1.0 / pivot;
            double value = there ? x[line][first + lane] * scale : 0.0;
#pragma unroll
            for (int k = 0; k < SOLVE_GROUP; k++)
                own[k] = there && first + k < n && (DOWN ? k < lane : k > lane) ? own[k] * scale : 0.0;
#pragma unroll
            for (int k = 0; k < SOLVE_GROUP; k++) {
                const int at = DOWN ? k : SOLVE_GROUP - 1 - k;
                value -= own[at] * __shfl_sync(ALL_LANES, value, at);
            }
            if (there) x[line][first + lane] = value;
            if (g + 1 < groups) load_group(DOWN ? first + SOLVE_GROUP : first - SOLVE_GROUP);
        }
        __syncthreads();
        for (int base = begin; base < end; base += others) {
            const int to = base + mine;
            for (int one = 0; one < x.size; one++) {
                double sum = 0.0;
#pragma unroll
                for (int k = 0; k < SOLVE_GROUP / SOLVE_SHARES; k++)
                    sum += from + k < n ? panel[k] * x[one][min(from + k, n - 1)] : 0.0;
                sum += __shfl_xor_sync(ALL_LANES, sum, 1);
                sum += __shfl_xor_sync(ALL_LANES, sum, 2);
                if (share == 0 && to < end) x[one][to] -= sum;
            }
            if (base + others < end) load_panel(to + others);
        }
        __syncthreads();
    }
    put_back(x, lines, unknowns);
}

__device__ inline void forward(Table<double> L, Table<double> x, long long n) { substitute<true>(L, x, n); }
__device__ inline void backward(Table<double> L, Table<double> x, long long n) { substitute<false>(L, x, n); }

// A thread for each row from `at` on; there must not be more of these. Scratch: four numbers.
__device__ __noinline__ long long join_rows(Table<double> L, long long valid, long long at) {
    extern __shared__ __align__(16) double shared[];
    if (at + 1 >= valid) return min(valid, at);
    const int begin = (int)at, end = (int)valid - 1, width = (int)L.width;
    double loaded[IN_FLIGHT];
    for (int k = threadIdx.x; k <= end; k += blockDim.x) {
        const int first = k > begin ? k - 1 : begin;
        const double kept = k <= begin ? L.at[begin * width + k] : 0.0;
        for (int from = first; from < end; from += IN_FLIGHT) {
#pragma unroll
            for (int r = 0; r < IN_FLIGHT; r++) loaded[r] = L.at[min(from + r + 1, end) * width + k];
#pragma unroll
            for (int r = 0; r < IN_FLIGHT; r++)
                if (from + r < end) L.at[(from + r) * width + k] = from + r == first ? loaded[r] + kept : loaded[r];
        }
    }
    __syncthreads();
    const int i = begin + threadIdx.x;
    const bool there = i < end;
    double *row = L.at + min(i, end) * width, carry = row[begin];
    for (int from = begin; from < end; from += IN_FLIGHT) {
#pragma unroll
        for (int r = 0; r < IN_FLIGHT; r++) loaded[r] = row[min(from + r + 1, end)];
#pragma unroll
        for (int r = 0; r < IN_FLIGHT; r++) {
            const int c = from + r;
            if (c >= end) break;
            double *turn = shared + 2 * (c & 1);
            if (i == c) {
                const double scale = 1.0 / sqrt(carry * carry + loaded[r] * loaded[r]);
                turn[0] = carry * scale, turn[1] = loaded[r] * scale;
            }
            __syncthreads();
            if (there && i >= c) {
                row[c] = turn[0] * carry + turn[1] * loaded[r];
                carry = turn[0] * loaded[r] - turn[1] * carry;
                if (i == c) row[c + 1] = 0.0;
            }
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
        v[into] = total; // [dyadic]
    }
    __syncthreads();
}

__device__ __noinline__ void merge_matrix(Table<double> A, long long older, long long newer, long long into) {
    const auto merge = [&](double *first, double *second, double *both) {
        double total = *first;
        *first = 0.0;
        if (newer != NONE) total += *second, *second = 0.0;
        *both = total; // [dyadic]
    };
    __syncthreads();
    for (long long i = threadIdx.x; i < A.size; i += blockDim.x) merge(&A[i][older], newer == NONE ? nullptr : &A[i][newer], &A[i][into]);
    __syncthreads();
    for (long long j = threadIdx.x; j < A.size; j += blockDim.x) merge(&A[older][j], newer == NONE ? nullptr : &A[newer][j], &A[into][j]);
    __syncthreads();
}

// By what the host found out about neighbours (on_card.py): first what every block has, and gives to those before and after it,
// then what every block gets from those that count it among their neighbours, in order of time.
__device__ __noinline__ void kernel_weights(const Rule &rule, const Blocks &blocks, Line<double> sums, Line<double> out) {
    const Line<long long> order = blocks.slots[IN_ORDER], size = blocks.slots[SIZE];
    const long long count = rule.slopes ? blocks.counts.blocks : 0;
    __syncthreads();
    for (long long slot = threadIdx.x; slot < out.size; slot += blockDim.x)
        out[slot] = sums[slot] / (size[slot] > 1 ? size[slot] : 1); // [dyadic]
    for (long long i = threadIdx.x; i < count; i += blockDim.x) {
        const long long steps = rule.beside[STEPS][i], newer = rule.beside[STEPS_NEWER][i];
        double before = 0.0, after = 0.0;
        for (long long k = rule.beside[OLDEST][i]; k < i; k++) before += sums[order[k]];
        for (long long k = i + 1; k <= rule.beside[NEWEST][i]; k++) after += sums[order[k]];
        const double older = rule.shares[TO_OLDER][i], newest = rule.shares[TO_NEWER][i], w = size[order[i]];
        const double spread = steps || newer ? block_spread_within<double>(size[order[i]], steps, newer, older, newest, sums[order[i]],
                                                                           before, after) : 0.0;
        rule.spread[0][i] = (older + newest) * spread / w;
        rule.spread[1][i] = steps ? older * spread / steps : 0.0;
        rule.spread[2][i] = newer ? newest * spread / newer : 0.0;
    }
    __syncthreads();
    for (long long p = threadIdx.x; p < count; p += blockDim.x) {
        double found = out[order[p]];
        for (long long i = rule.beside[REACH_FROM][p]; i <= rule.beside[REACH_TO][p]; i++) {
            if (i == p) found -= rule.spread[0][i];
            else if (rule.beside[OLDEST][i] <= p && p < i) found += rule.spread[1][i];
            else if (i < p && p <= rule.beside[NEWEST][i]) found += rule.spread[2][i];
        }
        out[order[p]] = found;
    }
    __syncthreads();
}
