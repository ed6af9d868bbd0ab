// Rows on their way from memory to a warp: DEPTH stages of ROWS rows in shared memory, filled by the copy engine of the
// multiprocessor while the warp works on rows that it holds in registers. Needs compute capability 9 (H100 and later).

#define ROW_BYTES (STRIDE * (int)sizeof(Stored))
#define STAGE_BYTES (ROWS * ROW_BYTES)

#ifdef __CUDACC__
__device__ inline unsigned shared_address(const void *pointer) { return (unsigned)__cvta_generic_to_shared(pointer); }

// One warp's barriers, one a stage; by one lane, before a barrier of the block.
__device__ inline void start_stages(u64 *full) {
    for (int stage = 0; stage < DEPTH; stage++)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(full + stage)) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// How many bytes a stage will get; then the copies, one a row. By one lane.
__device__ inline void expect_bytes(u64 *full, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(full)), "r"(bytes) : "memory");
}
__device__ inline void copy_row(void *place, const void *row, u64 *full) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(place)), "l"(row), "r"(ROW_BYTES), "r"(shared_address(full))
                 : "memory");
}

// Until a stage has been filled for the time that `parity` (0, 1, 0, ...) says.
__device__ inline void wait_for(u64 *full, unsigned parity) {
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared_address(full)), "r"(parity) : "memory");
}
#else   // the host's compiler, in tests: copies are made at once
inline void start_stages(u64 *) {}
inline void expect_bytes(u64 *, int) {}
inline void copy_row(void *place, const void *row, u64 *) { __builtin_memcpy(place, row, ROW_BYTES); }
inline void wait_for(u64 *, unsigned) { __syncwarp(); }   // lane 0 has made its copies
#endif

// Ask for the rows that a warp takes from place k of its list on.
__device__ inline void fill_stage(char *stage, u64 *full, const Stored *data, const unsigned short *list, int k, int listed) {
    const int rows = min(ROWS, listed - k);
    expect_bytes(full, rows * ROW_BYTES);
    for (int r = 0; r < rows; r++) copy_row(stage + r * ROW_BYTES, data + (i64)list[k + r] * STRIDE, full);
}
