// Sums of many numbers over the lanes of a warp (LANES of them).

// put(index, sum over the lanes of v[index]), each index in one lane. At every level half of the lanes go on with the first half of
// the numbers, the others with the second. first, count: those that this lane still has.
template <int offset, int terms, typename real, typename Put>
__device__ inline void lane_sums_from(const real (&v)[terms], Put put, int first, int count) {
    if constexpr (offset == 0) {
#pragma unroll
        for (int i = 0; i < terms; i++)
            if (i < count) put(first + i, v[i]);
    } else {
        constexpr int half = (terms + 1) / 2;
        const bool upper = threadIdx.x & offset;
        real left[half];
#pragma unroll
        for (int i = 0; i < half; i++) {
            const real later = half + i < terms ? v[half + i < terms ? half + i : 0] : real(0);
            left[i] = (upper ? later : v[i]) + __shfl_xor_sync(0xffffffffu, upper ? v[i] : later, offset);
        }
        lane_sums_from<offset / 2>(left, put, upper ? first + half : first, upper ? max(count - half, 0) : min(count, half));
    }
}
template <int terms, typename real, typename Put> __device__ inline void lane_sums(const real (&v)[terms], Put put) {
    lane_sums_from<LANES / 2>(v, put, 0, terms);
}
