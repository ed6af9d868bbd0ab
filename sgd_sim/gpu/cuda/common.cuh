// What the kernels of the simulator share. Numbers are those of sgd_sim/*.py, whose names are used here.
//
// Put before this file: dmft/core/cuda/philox.cuh, the functions of the loss and those of sgd_sim/kernels/formulas.py,
// translated from Python, numbers with names there (mini-batches, modes, columns of a line of settings, rows of the curves),
// and definitions of
//   N          dimension
//   STRIDE     numbers of a stored row: N filled up with zeros to 32 bytes
//   IN_HALVES  1: data in float16, 0: in float32
//   TEAM       warps that work on a row together
//   WARPS      warps of a block of pass_over_rows; TEAM is 1 or WARPS
//   VECTORS    16-byte vectors of a row that a thread holds
//   ROWS_HELD  rows that a team holds at a time
//   RESIDENT   blocks of pass_over_rows that a multiprocessor should hold
//   CHUNK      rows of a block, a multiple of 4
//   ANCHORED   1: labels are the teacher's fields h0, and fields are computed from the deviation from the nearer of w0 and -w0
//   INTERCEPT  1: an intercept is learnt
//   REMEMBERS  1: a step needs the weights of the step before
//   LOOKS_AHEAD  1: gradients are taken at another point than the weights
//   RESCALES   1: the constraint rescales the weights after a step
//   QUANTITIES rows of the curves of an instance
//   PRODUCTS   1: products.cuh passes over the data, 0: rows.cuh
//   PRODUCT_TILE, SLAB, STAGES  of products.cuh
//   LANES      threads of a warp
//   NORMALS    that are made at a time
//   LOG0.., SIN0.., COS0..  coefficients of sgd_sim/kernels/fast_normals.py
// All sums have a fixed order that depends on these alone: an instance has the same numbers in any batch.

typedef unsigned long long u64;
typedef long long i64;

#define SPAN (LANES * TEAM)        // threads of a row
#define THREADS (LANES * WARPS)
#define ROOT (1.0 / sqrt((double)N))
#define ALL_LANES 0xffffffffu
#define NEVER_READY (1ll << 62)    // in place of the step of an instance that has diverged

#if IN_HALVES
typedef unsigned short Stored;
#define VECTOR_WIDTH 8             // numbers of a vector
#else
typedef float Stored;
#define VECTOR_WIDTH 4
#endif
#define ROW_VECTORS (STRIDE / VECTOR_WIDTH) // vectors of a row
#define PADDED (SPAN * VECTORS * VECTOR_WIDTH)
#if TEAM == 1
#define PASS_ROOM (4 * WARPS * PADDED)  // bytes of shared memory of pass_over_rows, before its list of rows
#else
#define PASS_ROOM (16 * ((ROWS_HELD * (TEAM + 1) + 3) / 4) > 256 ? 16 * ((ROWS_HELD * (TEAM + 1) + 3) / 4) : 256)
#endif

// The numbers of a step; `lines` is 1 if all steps are alike.
__device__ inline const double *settings_of(const double *settings, i64 lines, i64 step) {
    return settings + (step < lines ? step : lines - 1) * SETTINGS;
}

struct __align__(16) Quad { float x, y, z, w; };
struct __align__(16) Vector { unsigned x, y, z, w; };   // 16 bytes of a row

// Place of column c in e and in gradients. In rows.cuh a thread's vector of eight numbers lies in two quads far apart, so that
// neighbouring threads read neighbouring quads.
__device__ inline int position(int c) {
    return PRODUCTS ? c : ((c % VECTOR_WIDTH / 4) * SPAN * VECTORS + c / VECTOR_WIDTH) * 4 + c % 4;
}

#ifdef __CUDACC__
__device__ inline void from_halves(unsigned bits, float &low, float &high) {
    asm("{ .reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }" : "=f"(low), "=f"(high) : "r"(bits));
}
__device__ inline unsigned to_half(float x) {
    unsigned bits;
    asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.u32.u16 %0, h; }" : "=r"(bits) : "f"(x));
    return bits;
}
__device__ inline Vector stream_in(const Vector *address) {   // read once: not to be kept in the first-level cache
    Vector v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(address));
    return v;
}
// Read what other blocks of the same launch may have written: past the first-level cache, which is not coherent.
__device__ inline float fresh(const float *address) {
    float x;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(address) : "memory");
    return x;
}
__device__ inline double fresh(const double *address) {
    double x;
    asm volatile("ld.global.cg.f64 %0, [%1];" : "=d"(x) : "l"(address) : "memory");
    return x;
}
__device__ inline unsigned fresh(const unsigned char *address) {
    unsigned x;
    asm volatile("ld.global.cg.u8 %0, [%1];" : "=r"(x) : "l"(address) : "memory");
    return x;
}
__device__ inline Quad fresh(const Quad *address) {
    Quad q;
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(q.x), "=f"(q.y), "=f"(q.z), "=f"(q.w) : "l"(address) : "memory");
    return q;
}
__device__ inline i64 acquire(const i64 *address) {
    i64 x;
    asm volatile("ld.acquire.gpu.global.s64 %0, [%1];" : "=l"(x) : "l"(address) : "memory");
    return x;
}
__device__ inline void release(i64 *address, i64 x) {
    asm volatile("st.release.gpu.global.s64 [%0], %1;" ::"l"(address), "l"(x) : "memory");
}
__device__ inline void rest() { asm volatile("nanosleep.u32 100;"); }
#else   // the host's compiler, in tests
#ifdef __aarch64__
typedef __fp16 Half; // GCC has no _Float16 for C++ there before version 13
#else
typedef _Float16 Half;
#endif
inline void from_halves(unsigned bits, float &low, float &high) {
    Half h[2];
    __builtin_memcpy(h, &bits, 4);
    low = (float)h[0], high = (float)h[1];
}
inline unsigned to_half(float x) { Half h = (Half)x; unsigned short b; __builtin_memcpy(&b, &h, 2); return b; }
inline Vector stream_in(const Vector *address) { return *address; }
template <typename T> inline T fresh(const T *address) { return *address; }
inline i64 acquire(const i64 *address) { return *address; }
inline void release(i64 *address, i64 x) { *address = x; }
inline void rest() {}
#endif

#if IN_HALVES
__device__ inline Stored stored(float x) { return (Stored)to_half(x); }
__device__ inline float number(Stored x) {
    float low, high;
    from_halves(x, low, high);
    return low;
}
__device__ inline void unpack(const Vector &v, float *x) {
    from_halves(v.x, x[0], x[1]);
    from_halves(v.y, x[2], x[3]);
    from_halves(v.z, x[4], x[5]);
    from_halves(v.w, x[6], x[7]);
}
#else
__device__ inline Stored stored(float x) { return x; }
__device__ inline float number(Stored x) { return x; }
__device__ inline void unpack(const Vector &v, float *x) {
    x[0] = __uint_as_float(v.x), x[1] = __uint_as_float(v.y), x[2] = __uint_as_float(v.z), x[3] = __uint_as_float(v.w);
}
#endif

__device__ inline bool is_number(double x) { return fabs(x) <= 1.7e308; }

// Sum over the threads of a block; every thread gets it. room: 32 doubles of shared memory.
__device__ inline double block_sum(double x, double *room) {
    for (int offset = LANES / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(ALL_LANES, x, offset);
    if (threadIdx.x % LANES == 0) room[threadIdx.x / LANES] = x;
    __syncthreads();
    double total = 0.0;
    for (unsigned warp = 0; warp < blockDim.x / LANES; warp++) total += room[warp];
    __syncthreads();
    return total;
}
