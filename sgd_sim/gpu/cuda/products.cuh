// Fields and gradients of many starts on one landscape: matrix products. A block makes a tile of PRODUCT_TILE starts by
// PRODUCT_TILE rows (fields) or columns (gradients), a warp 32 x 32 of it. Of the sum over columns or rows SLAB summands are
// multiplied at a time, while those of the next STAGES - 1 slabs are on their way into shared memory.
//
// Tensor cores multiply numbers of 11 bits (tf32). A number of float32 is the sum of two such, and a product that of the high
// parts and the two mixed ones; what is left out is below 2^-21 of it. Tensor cores cut sums off instead of rounding them, so they
// add up a slab only; slabs are added in float32. The order of all sums depends on SLAB and CHUNK alone: a start has the same
// numbers in any batch.

#define TILE_THREADS (PRODUCT_TILE * PRODUCT_TILE / 32)
#define TILE_STRIDE (PRODUCT_TILE + 8)   // numbers between the rows of a slab of the gradient
#define SLAB_BYTES (4 * SLAB * PRODUCT_TILE + (int)sizeof(Stored) * SLAB * TILE_STRIDE)
enum { FIELDS, GRADIENTS };

#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
// Copy 16 bytes into shared memory, or zeros, without waiting for them.
__device__ inline void copy_16(void *to, const void *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
                 "r"(there ? 16 : 0) : "memory");
}
__device__ inline void end_of_slab() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ inline void wait_for_slab() { asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory"); }
// sum += a b for 16 x 8 numbers a and 8 x 8 numbers b, of which a thread holds what the instruction says.
__device__ inline void multiply_add(float *sum, const unsigned *a, const unsigned *b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else   // the host, and cards without these instructions
__device__ inline void copy_16(void *to, const void *from, bool there) {
    *(Vector *)to = there ? *(const Vector *)from : Vector{0, 0, 0, 0};
}
__device__ inline void end_of_slab() {}
__device__ inline void wait_for_slab() {}
#endif

// Places in shared memory are such that the threads of a warp read from different banks. A slab of summands of a start, or of a
// row of data, lies in vectors of 16 bytes; those of every other start, and of every other two rows of float16, are turned.
__device__ inline int turned(int line, int vector, int width) {
    return width == 4 ? vector ^ (line % 2 * 4) : vector ^ (line / 2 % 2 * 2);
}
// For the gradient the summands are rows: row 4 q + j of sixteen lies at 4 j + q.
__device__ inline int row_place(int row) { return row / 16 * 16 + row % 4 * 4 + row % 16 / 4; }

// Ask for the summands first..first + SLAB of a tile. a: (starts, a_apart) numbers of the starts; the others are rows of data, and
// the summands its columns, or the other way round. `starts`, `others`, `summands`: how many there are from here on.
template <int WHAT>
__device__ inline void load_slab(const float *a, i64 a_apart, int starts, const Stored *data, int others, int summands, int first,
                                 float *a_slab, Stored *b_slab) {
    for (int i = threadIdx.x; i < PRODUCT_TILE * SLAB / 4; i += TILE_THREADS) {
        const int start = i / (SLAB / 4), vector = i % (SLAB / 4);
        const bool there = start < starts && first + 4 * vector < summands;
        copy_16(a_slab + start * SLAB + 4 * turned(start, vector, 4), there ? a + start * a_apart + first + 4 * vector : a, there);
    }
    const int vectors = (WHAT == FIELDS ? SLAB : PRODUCT_TILE) / VECTOR_WIDTH;
    for (int i = threadIdx.x; i < PRODUCT_TILE * SLAB / VECTOR_WIDTH; i += TILE_THREADS) {
        const int line = i / vectors, vector = i % vectors;
        const int row = WHAT == FIELDS ? line : first + line, column = VECTOR_WIDTH * vector + (WHAT == FIELDS ? first : 0);
        const bool there = WHAT == FIELDS ? row < others && column < summands : row < summands && column < others;
        Stored *place = b_slab + (WHAT == FIELDS ? line * SLAB + VECTOR_WIDTH * turned(line, vector, VECTOR_WIDTH)
                                                 : row_place(line) * TILE_STRIDE + VECTOR_WIDTH * vector);
        copy_16(place, there ? data + (i64)row * STRIDE + column : data, there);
    }
    end_of_slab();
}

// The summands 4 quad, ..., 4 quad + 3 of a slab, of a start and of another.
__device__ inline void four_of_start(const float *a_slab, int start, int quad, float *x) {
    Quad q = *(const Quad *)(a_slab + start * SLAB + 4 * turned(start, quad, 4));
    x[0] = q.x, x[1] = q.y, x[2] = q.z, x[3] = q.w;
}
template <int WHAT> __device__ inline void four_of_other(const Stored *b_slab, int other, int quad, float *x) {
    if (WHAT == GRADIENTS) {
#pragma unroll
        for (int j = 0; j < 4; j++) x[j] = number(b_slab[row_place(4 * quad + j) * TILE_STRIDE + other]);
        return;
    }
    const Stored *place = b_slab + other * SLAB + VECTOR_WIDTH * turned(other, 4 * quad / VECTOR_WIDTH, VECTOR_WIDTH)
                          + 4 * quad % VECTOR_WIDTH;
#if IN_HALVES
    struct __align__(8) Pair { unsigned x, y; } p = *(const Pair *)place;
    from_halves(p.x, x[0], x[1]);
    from_halves(p.y, x[2], x[3]);
#else
    Quad q = *(const Quad *)place;
    x[0] = q.x, x[1] = q.y, x[2] = q.z, x[3] = q.w;
#endif
}

// The high part of a number, rounded, and the rest of it.
__device__ inline void split(float x, unsigned &high, unsigned &low) {
    high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
    low = __float_as_uint(x - __uint_as_float(high));
}

// A thread holds sums of four starts and eight others, as tensor cores want it; counted from the first of the tile.
typedef float Sums[2][4][4];
__device__ inline int start_of(int i) {
    return threadIdx.x / LANES % (PRODUCT_TILE / 32) * 32 + 8 * i + threadIdx.x % LANES / 4;
}
__device__ inline int other_of(int j) {
    return threadIdx.x / LANES / (PRODUCT_TILE / 32) * 32 + j / 2 * 8 + 2 * (threadIdx.x % 4) + j % 2;
}
__device__ inline float &sum_of(Sums &sum, int i, int j) { return sum[i / 2][j / 2][i % 2 * 2 + j % 2]; }

template <int WHAT>
__device__ inline void multiply_slab(const float *a_slab, const Stored *b_slab, Sums &total) {
    Sums sum = {};
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
#pragma unroll
    for (int turn = 0; turn < SLAB / 16; turn++) {
        // A thread hands over others by the number of its four, and gets sums of others by its number among the four.
        const int quad = 4 * turn + threadIdx.x % 4, other = other_of(0) - 2 * (threadIdx.x % 4) + threadIdx.x % LANES / 4;
        float a[2][2][4], b[4][4];
#pragma unroll
        for (int i = 0; i < 4; i++) four_of_start(a_slab, start_of(i), quad, a[i / 2][i % 2]);
#pragma unroll
        for (int j = 0; j < 4; j++) four_of_other<WHAT>(b_slab, other + 8 * j, quad, b[j]);
#pragma unroll
        for (int k = 0; k < 4; k += 2) {   // two of the four summands: eight of the warp
            unsigned a_high[2][4], a_low[2][4], b_high[4][2], b_low[4][2];
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int p = 0; p < 4; p++) split(a[i][p % 2][k + p / 2], a_high[i][p], a_low[i][p]);
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int p = 0; p < 2; p++)
#if IN_HALVES
                    b_high[j][p] = __float_as_uint(b[j][k + p]);   // float16 is high part alone
#else
                    split(b[j][k + p], b_high[j][p], b_low[j][p]);
#endif
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int i = 0; i < 2; i++) multiply_add(sum[i][j], a_low[i], b_high[j]);
#if !IN_HALVES
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int i = 0; i < 2; i++) multiply_add(sum[i][j], a_high[i], b_low[j]);
#endif
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int i = 0; i < 2; i++) multiply_add(sum[i][j], a_high[i], b_high[j]);
        }
    }
#else
    for (int quad = 0; quad < SLAB / 4; quad++)
        for (int i = 0; i < 4; i++) {
            float a[4], b[4];
            four_of_start(a_slab, start_of(i), quad, a);
            for (int j = 0; j < 8; j++) {
                four_of_other<WHAT>(b_slab, other_of(j), quad, b);
                for (int k = 0; k < 4; k++) sum_of(sum, i, j) = fmaf(a[k], b[k], sum_of(sum, i, j));
            }
        }
#endif
#pragma unroll
    for (int i = 0; i < 32; i++) sum_of(total, i / 8, i % 8) += sum_of(sum, i / 8, i % 8);
}

// The sums of a tile; arguments as in load_slab.
template <int WHAT>
__device__ inline void multiply_tile(const float *a, i64 a_apart, int starts, const Stored *data, int others, int summands,
                                     char *room, Sums &total) {
    const int slabs = (summands + SLAB - 1) / SLAB;
    const auto a_slab = [&](int slab) { return (float *)(room + slab % STAGES * SLAB_BYTES); };
    const auto b_slab = [&](int slab) { return (Stored *)(a_slab(slab) + PRODUCT_TILE * SLAB); };
    const auto load = [&](int slab) {   // behind the last slab there is nothing to load
        load_slab<WHAT>(a, a_apart, starts, data, others, summands, slab * SLAB, a_slab(slab), b_slab(slab));
    };
    for (int slab = 0; slab < STAGES - 1; slab++) load(slab);
    for (int slab = 0; slab < slabs; slab++) {
        wait_for_slab();
        __syncthreads();
        load(slab + STAGES - 1);
        multiply_slab<WHAT>(a_slab(slab), b_slab(slab), total);
    }
}

// Coefficients of all rows in the gradients of all starts, factors (starts, factors_apart), and where mode has ALL the fields
// (starts, rows). Arguments as in pass_over_rows. Grid (tiles of rows, tiles of starts).
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 3)
fields_of_starts(int mode, i64 step, int starts, int ring, const double *settings, i64 lines, const Stored *data, const double *h0,
                 int rows, double *fields, const double *side, const unsigned char *s, const double *b, const float *e,
                 float *factors, i64 factors_apart) {
    extern __shared__ double shared[];
    const int first = blockIdx.y * PRODUCT_TILE, first_row = blockIdx.x * PRODUCT_TILE;
    const double scale = settings_of(settings, lines, step)[SCALE];
    if (s) s += step % ring * starts * rows;
    Sums sum = {};
    multiply_tile<FIELDS>(e + (i64)first * PADDED, PADDED, starts - first, data + (i64)first_row * STRIDE, rows - first_row, STRIDE,
                          (char *)shared, sum);
    double teachers[8];
#pragma unroll
    for (int j = 0; j < 8; j++) teachers[j] = h0[min(first_row + other_of(j), rows - 1)];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int start = first + start_of(i);
        if (start >= starts) continue;
        const double nearer = side[start], shift = INTERCEPT ? b[start] : 0.0;
        int weight[8];
#pragma unroll
        for (int j = 0; j < 8; j++)   // all of them before the first is needed
            weight[j] = !(mode & DRAW) ? 0 : s ? s[(i64)start * rows + min(first_row + other_of(j), rows - 1)] : 1;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const int row = first_row + other_of(j);
            if (row >= rows) continue;
            double field;
            const float factor = factor_of(sum_of(sum, i, j), teachers[j], nearer, shift, scale, weight[j], mode, field);
            if (mode & ALL) fields[(i64)start * rows + row] = field;
            if (mode & (DRAW | PRODUCT)) factors[start * factors_apart + row] = factor;
        }
    }
}

// Fills partial and pushes as pass_over_rows does. Grid (tiles of columns * chunks, tiles of starts).
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 3)
gradients_of_starts(int starts, const Stored *data, int rows, const float *factors, i64 factors_apart, float *partial,
                    double *pushes) {
    extern __shared__ double shared[];
    const int tiles = (N + PRODUCT_TILE - 1) / PRODUCT_TILE, chunk = blockIdx.x / tiles, chunks = gridDim.x / tiles;
    const int first = blockIdx.y * PRODUCT_TILE, first_column = blockIdx.x % tiles * PRODUCT_TILE;
    const int here = min(CHUNK, rows - chunk * CHUNK);
    factors += first * factors_apart + chunk * CHUNK;
    Sums sum = {};
    multiply_tile<GRADIENTS>(factors, factors_apart, starts - first, data + (i64)chunk * CHUNK * STRIDE + first_column,
                             STRIDE - first_column, here, (char *)shared, sum);
#pragma unroll
    for (int i = 0; i < 32; i++) {
        const int start = first + start_of(i / 8), column = first_column + other_of(i % 8);
        if (start < starts && column < N)
            partial[((i64)start * chunks + chunk) * PADDED + position(column)] = sum_of(sum, i / 8, i % 8);
    }
#if INTERCEPT
    if (first_column) return;
    for (int start = threadIdx.x / LANES; start < min(PRODUCT_TILE, starts - first); start += TILE_THREADS / LANES) {
        double push = 0.0;
        for (int i = threadIdx.x % LANES; i < here; i += LANES) push += factors[start * factors_apart + i];
        for (int offset = LANES / 2; offset > 0; offset /= 2) push += __shfl_xor_sync(ALL_LANES, push, offset);
        if (threadIdx.x % LANES == 0) pushes[(i64)(first + start) * chunks + chunk] = push;
    }
#endif
}
