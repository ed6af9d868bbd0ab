// Sums that do not depend on their order, as dmft/core/exact_sum.py makes them on the host: the same bits.
//
// Put before this file: EXACT_BASE, the base of the digits, which is 2**32.

// The same number with the two lower digits in [0, base).
__device__ inline void carry_digits(long long &high, long long &middle, long long &low) {
    middle += low >> 32, low &= 0xffffffffll;
    high += middle >> 32, middle &= 0xffffffffll;
}

// The sum of `count` terms, `stride` apart; NaN where one of them is not finite.
__device__ inline double exact_total(const double *terms, long long stride, int count) {
    double largest = 0.0;
    for (int k = 0; k < count; k++) largest = fabs(terms[k * stride]) > largest ? fabs(terms[k * stride]) : largest;
    const int place = largest > 0.0 && largest < 1.0 / 0.0 ? max(ilogb(largest), -1023) >> 5 : 0;
    const double half = largest > 0.0 && largest < 1.0 / 0.0 ? ldexp(1.0, -16 * place) : 0.0;
    double highs = 0.0, middles = 0.0, lows = 0.0; // whole numbers
    for (int k = 0; k < count; k++) {
        double rest = terms[k * stride] * half * half; // in two factors: their product may overflow
        const double high = trunc(rest);
        rest = (rest - high) * EXACT_BASE;
        const double middle = trunc(rest);
        highs += high, middles += middle, lows += trunc((rest - middle) * EXACT_BASE);
    }
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

// totals (solutions, columns) of terms (solutions, count, columns). Grid (any number, 1, solutions).
extern "C" __global__ void exact_totals(const int *on, int count, int columns, const double *terms, double *totals) {
    if (!on[blockIdx.z]) return;
    terms += (long long)blockIdx.z * count * columns, totals += (long long)blockIdx.z * columns;
    for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < columns; c += gridDim.x * blockDim.x)
        totals[c] = exact_total(terms + c, columns, count);
}
