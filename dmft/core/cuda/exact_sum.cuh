// Sums that do not depend on their order, as dmft/core/exact_sum.py makes them on the host: the same bits.
//
// Put before this file: EXACT_BASE, the base of the digits, which is 2**32, and LANES.

// The same number with the two lower digits in [0, base).
__device__ inline void carry_digits(long long &high, long long &middle, long long &low) {
    middle += low >> 32, low &= 0xffffffffll;
    high += middle >> 32, middle &= 0xffffffffll;
}

// The place of the highest digit of a sum whose largest term has this size, and 2**(-16 place), or 0 where there is nothing to cut.
__device__ inline int digit_place(double largest) {
    return largest > 0.0 && largest < 1.0 / 0.0 ? max(ilogb(largest), -1023) >> 5 : 0;
}
__device__ inline double half_of_place(double largest, int place) {
    return largest > 0.0 && largest < 1.0 / 0.0 ? ldexp(1.0, -16 * place) : 0.0;
}

// A sum from the sums of its digits, which are whole numbers; NaN where one of its terms is not finite.
__device__ inline double of_digits(int place, double highs, double middles, double lows) {
    if (middles != middles) return middles;
    long long high = (long long)highs, middle = (long long)middles, low = (long long)lows;
    long long top = high, next = middle, last = low;
    carry_digits(top, next, last);
    const double sign = top >= 0 ? 1.0 : -1.0;
    if (sign < 0.0) high = -high, middle = -middle, low = -low;
    carry_digits(high, middle, low);
    const double size = (double)high * EXACT_BASE * EXACT_BASE + ((double)middle * EXACT_BASE + (double)low);
    return sign * ldexp(size, 32 * (place - 2));
}

// totals (solutions, columns): of terms (solutions, count, parts, columns) the sums over parts, in order, and of these
// the exact ones. A warp has a column a lane, and a share of the terms. Grid (columns / LANES, 1, solutions). Shared
// memory: three numbers a thread.
extern "C" __global__ void exact_totals(const int *on, int count, int parts, int columns, const double *terms, double *totals) {
    extern __shared__ __align__(16) double shared[];
    if (!on[blockIdx.z]) return;
    const int lane = threadIdx.x % LANES, share = threadIdx.x / LANES, shares = blockDim.x / LANES, c = blockIdx.x * LANES + lane;
    terms += (long long)blockIdx.z * count * parts * columns + min(c, columns - 1);
    const auto term = [&](int k) {
        double sum = 0.0;
#pragma unroll 8
        for (int p = 0; p < parts; p++) sum += terms[((long long)k * parts + p) * columns];
        return sum;
    };
    double largest = 0.0;
    for (int k = share; k < count; k += shares) {
        const double size = fabs(term(k));
        largest = size > largest ? size : largest;
    }
    shared[threadIdx.x] = largest;
    __syncthreads();
    for (int s = 0; s < shares; s++) largest = shared[s * LANES + lane] > largest ? shared[s * LANES + lane] : largest;
    __syncthreads();
    const int place = digit_place(largest);
    const double half = half_of_place(largest, place);
    double digits[3] = {};
    for (int k = share; k < count; k += shares) {
        double rest = term(k) * half * half; // in two factors: their product may overflow
        for (int d = 0; d < 3; d++) {
            const double digit = trunc(rest);
            digits[d] += digit;
            rest = (rest - digit) * EXACT_BASE;
        }
    }
    for (int d = 0; d < 3; d++) shared[d * blockDim.x + threadIdx.x] = digits[d];
    __syncthreads();
    if (share > 0 || c >= columns) return;
    for (int s = 1; s < shares; s++)
        for (int d = 0; d < 3; d++) digits[d] += shared[d * blockDim.x + s * LANES + lane];
    totals[(long long)blockIdx.z * columns + c] = of_digits(place, digits[0], digits[1], digits[2]);
}
