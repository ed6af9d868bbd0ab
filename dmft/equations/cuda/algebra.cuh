// Products, solves and merges of the equations of a step by one block of threads: what dmft/equations/noise.py,
// recursion.py and blocks.py have as loops, under the same names. The equations themselves are translated
// (dmft/equations/on_card.py). Every function is called by all threads after a barrier, and gives all of them the same
// number; those that change an array end with a barrier.
//
// Put before this file: block_cuda.CELL_TYPES, enums of the rows of tables, NONE, LANES, the number of EQUATION_WARPS, and what
// lies in shared memory behind the scratch of a number a thread (class Room of on_card.py): rows of a factor from STREAM_AT on,
// ROOM_WIDTH numbers each, in SOLVE_STAGES groups of SOLVE_ROWS; from INVERSES_AT on inverses of blocks, BLOCKS_NUMBERS, and at
// KNOWN_AT whether they are known; from LINES_AT on the unknowns.

#define ALL_LANES 0xffffffffu
#define IN_FLIGHT 16 // numbers of a matrix that a thread loads before it uses the first of them

// All of a block's shared memory.
__device__ inline double *all_shared() {
    extern __shared__ __align__(16) double shared[];
    return shared;
}
// The same pointer, which points to shared memory, in a form that tells the compiler so: it cannot see it where functions are
// called, and loads from nobody knows where take twice as long.
template <typename T> __device__ inline T *in_shared(T *at) {
#ifdef __CUDA_ARCH__
    const unsigned place = (unsigned)__cvta_generic_to_shared(at) - (unsigned)__cvta_generic_to_shared(all_shared());
    return (T *)((char *)all_shared() + place);
#else
    return at;
#endif
}
// Where vectors and tables are, which lie there if they are staged.
template <typename T> __device__ inline T *staged(T *at) { return STAGED ? in_shared(at) : at; }
__device__ inline int my_warp() { return threadIdx.x / LANES; }
__device__ inline int my_lane() { return threadIdx.x % LANES; }

__device__ inline double warp_sum(double mine) {
    for (int step = LANES / 2; step > 0; step /= 2) mine += __shfl_xor_sync(ALL_LANES, mine, step);
    return mine;
}

// The sum over all threads. Scratch: one number a warp.
__device__ inline double block_sum(double mine) {
    double *shared = all_shared();
    mine = warp_sum(mine);
    if (my_lane() == 0) shared[my_warp()] = mine;
    __syncthreads();
    double sum = 0.0;
    for (int w = 0; w < EQUATION_WARPS; w++) sum += shared[w];
    __syncthreads(); // the scratch is free again
    return sum;
}

// Vectors are short where it matters, so that every warp goes through the whole of them: that takes less time than two
// barriers. A lane loads all its numbers before it uses the first one, as in the solves: loads that wait for each other
// take longer than everything else.
#define CHUNKS ((ROOM_WIDTH + LANES - 1) / LANES) // numbers of a vector that a lane has
template <typename A, typename B> __device__ double dot(Line<A> a, Line<B> b, long long n) {
    double one[CHUNKS], other[CHUNKS], mine = 0.0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int k = max(min(c * LANES + my_lane(), (int)n - 1), 0);
        one[c] = a[k], other[c] = b[k];
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) mine += c * LANES + my_lane() < (int)n ? one[c] * other[c] : 0.0;
    return warp_sum(mine);
}

__device__ inline double total(Line<double> a, long long n) {
    double mine = 0.0;
    for (int k = my_lane(); k < (int)n; k += LANES) mine += a[k];
    return warp_sum(mine);
}

__device__ inline double larger_or_none(double one, double other) { return other > one || other != other ? other : one; }

__device__ inline double largest(Line<double> a, long long n) {
    double mine = 0.0;
    for (int k = my_lane(); k < (int)n; k += LANES) mine = larger_or_none(mine, a[k]);
    for (int step = LANES / 2; step > 0; step /= 2) mine = larger_or_none(mine, __shfl_xor_sync(ALL_LANES, mine, step));
    return mine;
}

// Copies into shared memory that are under way beside what a thread does. They come in sets, the end of which a thread says, and it
// waits until all but the last few sets that it has ended are there.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <int BYTES> __device__ inline void begin_copy(double *to, const double *from) {
    const unsigned place = (unsigned)__cvta_generic_to_shared(to);
    if (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(place), "l"(from) : "memory");
}
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int BUT> __device__ inline void wait_for_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(BUT) : "memory"); }
#else // older cards, and the host
template <int BYTES> __device__ inline void begin_copy(double *to, const double *from) {
    for (int k = 0; k < BYTES / 8; k++) to[k] = from[k];
}
__device__ inline void end_copies() {}
template <int BUT> __device__ inline void wait_for_copies() {}
#endif

// The line of memory of a number on its way into the card's cache.
__device__ inline void ask_for(const double *number) {
#ifdef __CUDA_ARCH__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(number)));
#endif
}

// EACH neighbouring numbers of a matrix at a time: its rows begin at a multiple of 16 bytes. The order of such loads stays as it is
// written, so that many are under way, LOADED below: a card takes longer to answer than to compute.
#define EACH 2
__device__ inline void load_each(const double *from, double (&to)[EACH]) {
#ifdef __CUDA_ARCH__
    const size_t place = __cvta_generic_to_global(from);
    asm volatile("ld.global.v2.f64 {%0, %1}, [%2];" : "=d"(to[0]), "=d"(to[1]) : "l"(place) : "memory");
#else
    for (int e = 0; e < EACH; e++) to[e] = from[e];
#endif
}

// to_i = scale sum_j A_ij from_j, or that added to it, over `rows` of both: a warp for a few rows at a time.
template <bool ADD> __device__ __noinline__ void times_rows(double scale, const double *A, int width, const double *from, int rows,
                                                            double *to) {
    constexpr int LOADED = 12, ACROSS = (ROOM_WIDTH + EACH * LANES - 1) / (EACH * LANES),
                  DOWN = ACROSS < LOADED ? LOADED / ACROSS : 1;
    const int lane = my_lane();
    double own[ACROSS][EACH];
    from = staged(from), to = staged(to);
#pragma unroll
    for (int c = 0; c < ACROSS; c++)
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int k = EACH * (c * LANES + lane) + e;
            own[c][e] = k < rows ? from[k] : 0.0;
        }
#pragma unroll 1
    for (int first = DOWN * my_warp(); first < rows; first += DOWN * EQUATION_WARPS) {
        double loaded[DOWN][ACROSS][EACH], sums[DOWN];
#pragma unroll
        for (int r = 0; r < DOWN; r++)
#pragma unroll
            for (int c = 0; c < ACROSS; c++) // beyond the last column as the last ones, which have no weight
                load_each(A + min(first + r, rows - 1) * width + min(EACH * (c * LANES + lane), width - EACH), loaded[r][c]);
#pragma unroll
        for (int r = 0; r < DOWN; r++) {
            sums[r] = 0.0;
#pragma unroll
            for (int c = 0; c < ACROSS; c++)
#pragma unroll
                for (int e = 0; e < EACH; e++) sums[r] += loaded[r][c][e] * own[c][e];
        }
#pragma unroll
        for (int step = LANES / 2; step > 0; step /= 2)
#pragma unroll
            for (int r = 0; r < DOWN; r++) sums[r] += __shfl_xor_sync(ALL_LANES, sums[r], step);
#pragma unroll
        for (int r = 0; r < DOWN; r++)
            if (lane == 0 && first + r < rows) to[first + r] = ADD ? to[first + r] + scale * sums[r] : scale * sums[r];
    }
    __syncthreads();
}

// Beyond their ends rows are zero.
__device__ inline void row_products(double scale, Table<double> A, Line<double> v, Line<long long>, long long used,
                                    Line<double> out) {
    times_rows<false>(scale, A.at, (int)A.width, v.at, (int)used, out.at);
}

// The matrix, that of Q, is symmetric: its columns are its rows.
__device__ inline void add_rows(double scale, Line<double> weights, Table<double> A, long long used, Line<double> out) {
    times_rows<true>(scale, A.at, (int)A.width, weights.at, (int)used, out.at);
}

// A thread for EACH columns, and several threads for the same ones where there are enough: each takes a share of the rows. What is
// zero is not loaded. Scratch: a number a thread.
__device__ __noinline__ void add_short_rows(double scale, Line<double> weights, Table<double> A, Line<long long> stop,
                                            long long used, Line<double> out) {
    constexpr int LOADED = 10;
    double *shared = all_shared(), *to = staged(out.at);
    const double *from = staged(weights.at);
    const long long *ends = staged(stop.at);
    const int rows = (int)used, width = (int)A.width, wide = max(min((rows + EACH - 1) / EACH, (int)blockDim.x), 1);
    const int shares = blockDim.x / wide, column = threadIdx.x % wide, share = threadIdx.x / wide;
#pragma unroll 1
    for (int first = 0; first < rows; first += EACH * wide) {
        const int j = first + EACH * column;
        double sums[EACH] = {};
#pragma unroll 1
        for (int i = share; share < shares && i < rows; i += LOADED * shares) {
            double loaded[LOADED][EACH];
#pragma unroll
            for (int u = 0; u < LOADED; u++) {
                const int row = min(i + u * shares, rows - 1);
                load_each(A.at + row * width + (j < (int)ends[row] ? min(j, width - EACH) : 0), loaded[u]);
            }
#pragma unroll
            for (int u = 0; u < LOADED; u++) {
                const int row = min(i + u * shares, rows - 1);
                const double weight = from[row];
#pragma unroll
                for (int e = 0; e < EACH; e++) sums[e] += i + u * shares < rows && j < (int)ends[row] ? weight * loaded[u][e] : 0.0;
            }
        }
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            shared[threadIdx.x] = sums[e];
            __syncthreads();
            if (share == 0 && j + e < rows) {
                for (int s = 1; s < shares; s++) sums[e] += shared[s * wide + column];
                to[j + e] += scale * sums[e];
            }
            __syncthreads();
        }
    }
}

// The first rows of a factor, up to their diagonals, on their way into shared memory, in groups of SOLVE_ROWS of which AHEAD are
// under way at a time: a card takes longer to answer than to compute. UP: from the last group on.
template <bool UP> struct Stream {
    static constexpr int AHEAD = SOLVE_STAGES > 4 ? 4 : SOLVE_STAGES - 1;
    Table<double> A;
    int rows, groups;
    bool there; // already: what a stream of the same rows has left, which had room for all of them
    __device__ Stream(Table<double> of, int many, bool left = false)
        : A(of), rows(many), groups((many + SOLVE_ROWS - 1) / SOLVE_ROWS), there(left && groups <= SOLVE_STAGES) {
#pragma unroll 1
        for (int turn = 0; turn < AHEAD; turn++) ask(turn);
    }
    __device__ int group(int turn) const { return UP ? groups - 1 - turn : turn; }
    __device__ int first(int turn) const { return SOLVE_ROWS * group(turn); }
    __device__ int count(int turn) const { return min(SOLVE_ROWS, rows - first(turn)); }
    __device__ double *room(int turn) const {
        return all_shared() + STREAM_AT + group(turn) % SOLVE_STAGES * (SOLVE_ROWS * ROOM_WIDTH);
    }
    __device__ void ask(int turn) const {
        const int mine = EACH * my_lane(), width = (int)A.width;
        if (turn < groups && !there) {
            const int begin = first(turn), end = begin + count(turn);
            double *to = room(turn) + mine;
#pragma unroll 1
            for (int i = begin + my_warp(); i < end; i += EQUATION_WARPS)
#pragma unroll
                for (int k = 0; k < ROOM_WIDTH; k += EACH * LANES)
                    if (k + mine < end) begin_copy<8 * EACH>(to + (i - begin) * ROOM_WIDTH + k, A.at + i * width + mine + k);
        }
        end_copies();
    }
    // The rows of a turn, one every ROOM_WIDTH numbers. All threads have done with those of the turn before.
    __device__ const double *wait(int turn) const {
        wait_for_copies<AHEAD - 1>();
        __syncthreads();
        ask(turn + AHEAD);
        return room(turn);
    }
};

// The inverses of the blocks on the diagonal of L, in shared memory, which make a product of a group of unknowns: BLOCK_WIDTH from
// row to row. A warp for each block.
#define BLOCK_WIDTH (SOLVE_ROWS + 1)
__device__ inline double *inverse_block(int b) {
    return all_shared() + INVERSES_AT + b * (SOLVE_ROWS * BLOCK_WIDTH);
}
__device__ inline void ask_for_blocks(Table<double> L, int n) {
#pragma unroll 1
    for (int b = my_warp(); b * SOLVE_ROWS < n; b += EQUATION_WARPS)
        for (int k = my_lane(); k < SOLVE_ROWS * SOLVE_ROWS; k += LANES) {
            const int i = k / SOLVE_ROWS, j = k % SOLVE_ROWS, row = b * SOLVE_ROWS + i;
            if (row < n && j <= i)
                begin_copy<8>(inverse_block(b) + i * BLOCK_WIDTH + j, L.at + row * (int)L.width + b * SOLVE_ROWS + j);
            else
                inverse_block(b)[i * BLOCK_WIDTH + j] = i == j; // rows that are not there
        }
    end_copies();
}
__device__ inline void invert_blocks(int n) {
#pragma unroll 1
    for (int b = my_warp(); b * SOLVE_ROWS < n; b += EQUATION_WARPS) {
        double *block = inverse_block(b), column[SOLVE_ROWS]; // of the inverse, a lane for each
        const int lane = my_lane(), at = min(lane, SOLVE_ROWS - 1);
        __syncwarp(ALL_LANES);
        const double scale = 1.0 / block[at * BLOCK_WIDTH + at];
#pragma unroll
        for (int i = 0; i < SOLVE_ROWS; i++) column[i] = i == lane;
#pragma unroll
        for (int k = 0; k < SOLVE_ROWS; k++) {
            column[k] *= __shfl_sync(ALL_LANES, scale, k);
#pragma unroll
            for (int i = k + 1; i < SOLVE_ROWS; i++) column[i] -= block[i * BLOCK_WIDTH + k] * column[k];
        }
        __syncwarp(ALL_LANES);
#pragma unroll
        for (int i = 0; i < SOLVE_ROWS; i++)
            if (lane < SOLVE_ROWS) block[i * BLOCK_WIDTH + lane] = column[i];
    }
}

// The sum of the products of two halves of lines, which two neighbouring lanes have, by pairs: one after the other takes longer.
template <int HALF> __device__ inline double both_halves(const double (&a)[HALF], double (&b)[HALF]) {
    static_assert((HALF & (HALF - 1)) == 0, "a power of two");
#pragma unroll
    for (int k = 0; k < HALF; k++) b[k] *= a[k];
#pragma unroll
    for (int many = HALF / 2; many > 0; many /= 2)
#pragma unroll
        for (int k = 0; k < many; k++) b[k] += b[k + many];
    return b[0] + __shfl_xor_sync(ALL_LANES, b[0], 1);
}

// The unknowns of group b from what is left of them once the others are accounted for, by a warp, two lanes for each. By how much
// they miss the equations themselves, whose rows are `at` hand, is solved for once more: where the past is nearly singular, an
// inverse alone loses digits that substitution keeps.
template <bool DOWN> __device__ inline void solve_group(int b, const double *at, double *x, int count) {
    constexpr int HALF = SOLVE_ROWS / 2;
    const double *block = inverse_block(b);
    const int lane = my_lane(), i = min(lane / 2, count - 1), half = lane % 2 * HALF;
    const double whole = x[i];
    double inverse[HALF], rows[HALF], known[HALF];
#pragma unroll
    for (int k = 0; k < HALF; k++) {
        const int j = min(half + k, count - 1), low = DOWN ? i : j, high = DOWN ? j : i;
        const bool there = half + k < count && high <= low;
        inverse[k] = there ? block[low * BLOCK_WIDTH + high] : 0.0, rows[k] = there ? at[low * ROOM_WIDTH + high] : 0.0;
        known[k] = x[j];
    }
    const double found = both_halves(inverse, known);
#pragma unroll
    for (int k = 0; k < HALF; k++) known[k] = __shfl_sync(ALL_LANES, found, 2 * (half + k));
    const double missed = whole - both_halves(rows, known);
#pragma unroll
    for (int k = 0; k < HALF; k++) known[k] = __shfl_sync(ALL_LANES, missed, 2 * (half + k));
    const double more = both_halves(inverse, known);
    __syncwarp(ALL_LANES); // all lanes have read x, which a shuffle alone does not promise
    if (lane % 2 == 0 && lane / 2 < count) x[i] = found + more;
}

// The unknowns of a solve, two lines at most, which it has at hand.
__device__ inline double *take_lines(Table<double> x, int n) {
    double *here = all_shared() + LINES_AT;
    for (int line = 0; line < (int)x.size; line++)
        for (int k = threadIdx.x; k < n; k += blockDim.x) here[line * ROOM_WIDTH + k] = x[line][k];
    return here;
}
__device__ inline void put_lines(Table<double> x, int n) {
    const double *here = all_shared() + LINES_AT;
    __syncthreads();
    for (int line = 0; line < (int)x.size; line++)
        for (int k = threadIdx.x; k < n; k += blockDim.x) x[line][k] = here[line * ROOM_WIDTH + k];
    __syncthreads();
}

// Whether these blocks are those of the factor that a kernel solves with, as `enter_step` left them: else they are found first.
__device__ inline double &blocks_are_known() { return all_shared()[KNOWN_AT]; }
// They come from memory with `arrays_are_there`, or go there: (groups, SOLVE_ROWS, BLOCK_WIDTH). What a kernel solves with
// may be another factor afterwards: `enter_step` follows wherever the solution goes on, and leaves the blocks of that one; else the
// host sends the state anew, and none are known.
__device__ inline void take_blocks(const double *from, bool known) {
    if (threadIdx.x == 0) blocks_are_known() = known;
    for (int k = threadIdx.x; known && k < BLOCKS_NUMBERS; k += blockDim.x) begin_copy<8>(inverse_block(0) + k, from + k);
}
__device__ inline void leave_blocks(Table<double> L, long long n, double *to) {
    __syncthreads();
    ask_for_blocks(L, (int)n);
    wait_for_copies<0>();
    invert_blocks((int)n);
    __syncthreads();
    for (int k = threadIdx.x; k < BLOCKS_NUMBERS; k += blockDim.x) to[k] = inverse_block(0)[k];
    __syncthreads();
}

// L y = x for every line of x (lines, n), in place, two lines at most, in groups of SOLVE_ROWS unknowns. What the unknowns before a
// group contribute to one of its rows, a warp adds up.
__device__ __noinline__ void forward(Table<double> L, Table<double> x, long long n) {
    const int size = (int)n, lines = (int)x.size, lane = my_lane();
    double *one = take_lines(x, size), *other = one + (lines - 1) * ROOM_WIDTH;
    const bool own = x.at >= L.at && x.at < L.at + L.size * L.width; // a row of L, whose inverses change with it
    const bool known = blocks_are_known() && !own;
    __syncthreads();
    if (own && threadIdx.x == 0) blocks_are_known() = 0.0;
    if (!known) ask_for_blocks(L, size);
    const Stream<false> stream(L, size);
    if (!known) {
        wait_for_copies<Stream<false>::AHEAD>();
        invert_blocks(size);
    }
#pragma unroll 1
    for (int turn = 0; turn < stream.groups; turn++) {
        const double *at = stream.wait(turn);
        const int first = stream.first(turn), count = stream.count(turn);
#pragma unroll 1
        for (int r = my_warp(); r < count && turn > 0; r += EQUATION_WARPS) {
            double sum = 0.0, second = 0.0;
#pragma unroll 2
            for (int from = 0; from < first; from += 2 * LANES) {
                const int k = from + lane, next = k + LANES, near = min(k, first - 1), far = min(next, first - 1);
                const double a = at[r * ROOM_WIDTH + near], b = at[r * ROOM_WIDTH + far];
                const double of = one[near], off = one[far], by = other[near], bye = other[far];
                sum += (k < first ? a * of : 0.0) + (next < first ? b * off : 0.0);
                second += (k < first ? a * by : 0.0) + (next < first ? b * bye : 0.0);
            }
#pragma unroll
            for (int step = LANES / 2; step > 0; step /= 2) {
                sum += __shfl_xor_sync(ALL_LANES, sum, step);
                second += __shfl_xor_sync(ALL_LANES, second, step);
            }
            if (lane == 0) one[first + r] -= sum;
            if (lane == 1 && lines > 1) other[first + r] -= second;
        }
        __syncthreads();
        if (my_warp() < lines) solve_group<true>(turn, at + first, one + my_warp() * ROOM_WIDTH + first, count);
    }
    put_lines(x, size);
}

// L^T y = x, the same way from the last group on, right after `forward` of the same L and n, whose inverses are still there, and
// the rows of L where there is room. What a group contributes to an unknown before it, a thread adds up.
__device__ __noinline__ void backward(Table<double> L, Table<double> x, long long n) {
    const int size = (int)n, lines = (int)x.size;
    double *one = take_lines(x, size);
    const Stream<true> stream(L, size, true);
#pragma unroll 1
    for (int turn = 0; turn < stream.groups; turn++) {
        const double *at = stream.wait(turn);
        const int first = stream.first(turn), count = stream.count(turn);
        if (my_warp() < lines) solve_group<false>(stream.group(turn), at + first, one + my_warp() * ROOM_WIDTH + first, count);
        __syncthreads();
#pragma unroll 1
        for (int k = threadIdx.x; k < first * lines; k += blockDim.x) {
            const int line = k >= first, j = k - line * first;
            double *mine = one + line * ROOM_WIDTH, loaded[SOLVE_ROWS], known[SOLVE_ROWS], sum = 0.0;
#pragma unroll
            for (int r = 0; r < SOLVE_ROWS; r++) {
                const int row = min(r, count - 1);
                loaded[r] = at[row * ROOM_WIDTH + j], known[r] = mine[first + row];
            }
#pragma unroll
            for (int r = 0; r < SOLVE_ROWS; r++) sum += r < count ? loaded[r] * known[r] : 0.0;
            mine[j] -= sum;
        }
    }
    put_lines(x, size);
}

// A thread for each row from `at` on; there must not be more of these. Scratch: four numbers.
__device__ __noinline__ long long join_rows(Table<double> L, long long valid, long long at) {
    double *shared = all_shared();
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
    for (long long i = threadIdx.x; i < A.size; i += blockDim.x)
        merge(&A[i][older], newer == NONE ? nullptr : &A[i][newer], &A[i][into]);
    __syncthreads();
    for (long long j = threadIdx.x; j < A.size; j += blockDim.x)
        merge(&A[older][j], newer == NONE ? nullptr : &A[newer][j], &A[into][j]);
    __syncthreads();
}

// By what the host found out about neighbours (on_card.py): first what every block has, and what its slope adds; then what every
// block gets from those that count it among their neighbours, in order of time.
__device__ __noinline__ void kernel_weights(const Rule &rule, const Blocks &blocks, Line<double> sums, Line<double> out) {
    const int slots = (int)out.size;
    const long long *order = staged(blocks.slots.at) + IN_ORDER * slots, *size = staged(blocks.slots.at) + SIZE * slots;
    const long long *beside = staged(rule.beside.at), *oldest = beside + OLDEST * slots, *newest = beside + NEWEST * slots;
    const double *shares = staged(rule.shares.at), *of_own = shares + OF_OWN * slots, *from = staged(sums.at);
    double *to = staged(out.at), *spread = staged(rule.spread.at);
    const int count = rule.slopes ? (int)blocks.counts.blocks : 0;
    __syncthreads();
    for (int slot = blockDim.x - 1 - threadIdx.x; slot < slots; slot += blockDim.x) // by those with nothing to do below
        to[slot] = from[slot] / (double)max((int)size[slot], 1); // [dyadic]
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        double before = 0.0, after = 0.0;
        for (int k = (int)oldest[i]; k < i; k++) before += from[order[k]];
        for (int k = (int)newest[i]; k > i; k--) after += from[order[k]];
        spread[i] = shares[WITHIN_OWN * slots + i] * from[order[i]] + shares[WITHIN_OLDER * slots + i] * before +
                    shares[WITHIN_NEWER * slots + i] * after;
    }
    __syncthreads();
    for (int p = threadIdx.x; p < count; p += blockDim.x) {
        double found = to[order[p]] - of_own[p] * spread[p];
        for (int i = (int)beside[REACH_FROM * slots + p]; i <= (int)beside[REACH_TO * slots + p]; i++) {
            const double older = oldest[i] <= p && p < i ? shares[TO_OLDER * slots + i] : 0.0;
            const double newer = i < p && p <= newest[i] ? shares[TO_NEWER * slots + i] : 0.0;
            found += (older + newer) * spread[i];
        }
        to[order[p]] = found;
    }
    __syncthreads();
}
