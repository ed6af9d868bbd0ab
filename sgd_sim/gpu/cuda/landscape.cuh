// Data sets and noise: the normals of sgd_sim/kernels/fast_normals.py, equal up to the last bit or two (the compiler of the CPU
// chooses where it fuses multiplications with additions), and landscapes made of them.

// Two normals of two 32-bit words.
__device__ inline void box_muller(unsigned radius, unsigned angle, float &x, float &y) {
    const float ln2 = 0.6931471805599453f, root2 = 1.4142135623730951f, scale = 2.3283064365386963e-10f;
    float u = ((float)(int)(radius >> 1) + 0.5f) * (2.0f * scale);
    unsigned bits = __float_as_uint(u);
    float t = __uint_as_float((bits & 0x007FFFFFu) | 0x3F800000u), power = (float)(int)(bits >> 23) - 127.0f;
    if (t > root2) t *= 0.5f, power += 1.0f;
    float f = (t - 1.0f) / (t + 1.0f), g = f * f;
    float p = fmaf(fmaf(fmaf(fmaf(LOG4, g, LOG3), g, LOG2), g, LOG1), g, LOG0);
    float r = sqrtf(fmaxf(-2.0f * fmaf(power, ln2, p * f), 0.0f));
    float a = fmaf((float)(int)(angle & 0x3FFFFFFFu), 4.0f * scale, -0.5f), z = a * a;
    float s = fmaf(fmaf(fmaf(fmaf(SIN4, z, SIN3), z, SIN2), z, SIN1), z, SIN0) * a;
    float c = fmaf(fmaf(fmaf(fmaf(fmaf(COS5, z, COS4), z, COS3), z, COS2), z, COS1), z, COS0);
    unsigned quadrant = angle >> 30;
    if (quadrant > 1) r = -r;
    x = r * (quadrant & 1 ? -s : c);
    y = r * (quadrant & 1 ? c : s);
}

#define QUARTER (NORMALS / 4)   // normals i, i + QUARTER, .. of a block share a counter

// The four normals of a counter; out[k] is normal number i + QUARTER k of its block.
__device__ inline void four_normals(u64 stream, u64 index, u64 counter, float *out) {
    u64 one, two;
    philox(stream, index, counter, one, two);
    box_muller((unsigned)one, (unsigned)(one >> 32), out[0], out[2]);
    box_muller((unsigned)two, (unsigned)(two >> 32), out[1], out[3]);
}

// Normal number j of row `index` of a stream.
__device__ inline float one_normal(u64 stream, u64 index, int j) {
    u64 one, two;
    philox(stream, index, (u64)(j / NORMALS * QUARTER + j % QUARTER), one, two);
    u64 word = j / QUARTER % 2 ? two : one;
    float x, y;
    box_muller((unsigned)word, (unsigned)(word >> 32), x, y);
    return j % NORMALS < NORMALS / 2 ? x : y;
}

// data (landscapes, rows, STRIDE) and fields (landscapes, rows) of the teachers w0. Grid (rows, landscapes), 128 threads.
extern "C" __global__ void fill_rows(const u64 *streams, const double *w0, int rows, Stored *data, double *fields) {
    extern __shared__ double shared[];
    const i64 row = (i64)blockIdx.y * rows + blockIdx.x;
    const double *teacher = w0 + (i64)blockIdx.y * N;
    Stored *place = data + row * STRIDE;
    double field = 0.0;
    for (int first = 0; first < STRIDE; first += NORMALS) {
        float x[4];
        four_normals(streams[blockIdx.y], blockIdx.x, first / 4 + threadIdx.x, x);
        for (int k = 0; k < 4; k++) {
            int j = first + k * QUARTER + threadIdx.x;
            if (j >= STRIDE) continue;
            place[j] = stored(j < N ? x[k] : 0.0f);
            if (j < N) field += (double)number(place[j]) * teacher[j];
        }
    }
    field = block_sum(field, shared);
    if (threadIdx.x == 0) fields[row] = field * ROOT;
}

// Rows of a mixture are moved to their clusters: x = centre w0 + spread z, rounded again. Grid (rows, landscapes).
extern "C" __global__ void place_rows(const double *w0, int rows, const double *centre, const double *spread, Stored *data) {
    const i64 row = (i64)blockIdx.y * rows + blockIdx.x;
    const double *teacher = w0 + (i64)blockIdx.y * N;
    Stored *place = data + row * STRIDE;
    for (int j = threadIdx.x; j < N; j += blockDim.x)
        place[j] = stored((float)(centre[row] * teacher[j] + spread[row] * (double)number(place[j])));
}
