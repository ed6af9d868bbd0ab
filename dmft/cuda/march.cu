// Samples of the effective process on a GPU: what dmft/samples.py does on a CPU, names and equations as there.
//
// Put before this file: philox.cuh, the CUDA source of the loss, and `typedef float tangent;` (or double).
// Every sum has a fixed order, so a run repeats to the last bit on one kind of card.

#define SCALARS 9  // columns of row_sums before the kernels, as in samples.py
#define TINY 1e-18 // responses below this are zero, as in samples.py
#define AHEAD 8    // rows of tangents a thread loads before it adds them

enum { FULL_BATCH, BERNOULLI, POISSON, PERSISTENT };

// Loss derivatives of every sample, and its terms in the nine averages, terms (SCALARS, count).
extern "C" __global__ void fields(int count, double m, double eta, double scale, int stein, const double *weight,
                                  const double *h0, const double *h, const double *s, const double *Y, double *g,
                                  double *gp, double *g_h0, double *terms) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    double field = h[i] + m * h0[i], batch = scale * s[i], w = weight[i];
    double slope = batch * loss_dv<double>(field, h0[i]), curvature = batch * loss_d2v<double>(field, h0[i]);
    double mixed = batch * loss_dv_dh0<double>(field, h0[i]);
    double direct = slope * h0[i], other = stein ? curvature * (Y[i] + m) + mixed : direct;
    g[i] = slope;
    gp[i] = curvature;
    g_h0[i] = mixed;
    double row[SCALARS] = {w * curvature,
                           w * direct,
                           w * loss_v<double>(field, h0[i]),
                           w * slope * field,
                           w * slope * slope,
                           stein ? w * other : 0.0,
                           w * (direct - other) * (direct - other),
                           w * direct * (direct - other),
                           eta * curvature > 2.0 ? w : 0.0};
    for (int c = 0; c < SCALARS; c++) terms[(long long)c * count + i] = row[c];
}

// out (blocks, parts, SCALARS + 2 slots): sums over the samples of each part of a block. Grid (blocks, parts).
extern "C" __global__ void row_sums(int count, int block, int part, int slots, const double *weight, const double *g,
                                    const double *gp, const double *terms, const double *G, const tangent *row,
                                    double *out) {
    int first = blockIdx.x * block + blockIdx.y * part, columns = SCALARS + 2 * slots;
    int last = min(min(first + part, (int)(blockIdx.x + 1) * block), count);
    double *line = out + ((long long)blockIdx.x * gridDim.y + blockIdx.y) * columns;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
        double sum = 0.0;
        if (c < SCALARS) {
#pragma unroll 8
            for (int i = first; i < last; i++) sum += terms[(long long)c * count + i];
        } else if (c < SCALARS + slots) {
#pragma unroll 8
            for (int i = first; i < last; i++) sum += weight[i] * g[i] * G[(long long)i * slots + c - SCALARS];
        } else {
#pragma unroll 8
            for (int i = first; i < last; i++) sum += weight[i] * gp[i] * row[(long long)i * slots + c - SCALARS - slots];
        }
        line[c] = sum;
    }
}

// out (blocks, columns) = sum over parts of in (blocks, parts, columns), in order. Grid (blocks).
extern "C" __global__ void add_parts(int parts, int columns, const double *in, double *out) {
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
        double sum = 0.0;
        for (int p = 0; p < parts; p++) sum += in[((long long)blockIdx.x * parts + p) * columns + c];
        out[(long long)blockIdx.x * columns + c] = sum;
    }
}

// Mini-batch weight at the next step from a uniform u. Eq. [persistent-chain].
__device__ inline double next_weight(int kind, double s, double u, double fraction, double p_on, double p_off) {
    if (kind == BERNOULLI) return u < fraction ? 1.0 : 0.0;
    if (kind == PERSISTENT) return u < (s > 0.5 ? 1.0 - p_off : p_on) ? 1.0 : 0.0;
    if (kind == POISSON) {
        double term = exp(-fraction), below = term, drawn = 0.0;
        while (u >= below && drawn < 39.0) {
            drawn += 1.0;
            term *= fraction / drawn;
            below += term;
        }
        return drawn;
    }
    return 1.0;
}

template <typename real> __device__ inline real flushed(real x) { return fabs((double)x) < TINY ? real(0) : x; }

template <typename real> __device__ inline void merge_vector(real *v, const int *merge) {
    real sum = v[merge[0]] + v[merge[1]];
    v[merge[0]] = v[merge[1]] = 0;
    v[merge[2]] = sum;
}

// Sums of `terms` numbers a thread over all threads, in a fixed order; every thread gets them in total[].
template <int terms> __device__ inline void block_sum(double *value, double *scratch) {
    int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    for (int k = 0; k < terms; k++) scratch[k * threads + thread] = value[k];
    __syncthreads();
    int width = 1;
    while (width < threads) width *= 2;
    for (width /= 2; width > 0; width /= 2) {
        if (thread < width && thread + width < threads)
            for (int k = 0; k < terms; k++) scratch[k * threads + thread] += scratch[k * threads + thread + width];
        __syncthreads();
    }
    for (int k = 0; k < terms; k++) value[k] = scratch[k * threads];
    __syncthreads();
}

// One step of every sample, a block of threads each: threads x over columns (slots as sources), y over rows (slots as
// history) of its tangents. Eqs. [dmft-h], [dmft-T].
//
// rows (active, 3): slot, offset and length of the rows that hold something; merges (count, 3): older, newer, into.
// vectors (2, slots): memory and chi_weights. Slots before `begin`, of levels that have not been reached, hold nothing.
extern "C" __global__ void advance(
    int slots, int begin, int used, long long packed, long long n, double eta, double a, double keep, double chi_sd, double thermal,
    double m, int stein, int active, int merges, int slot, const int *rows, const int *merge, const double *vectors,
    const int *offset, const int *stop, int kind, double fraction, double p_on, double p_off,
    unsigned long long noise_key, unsigned long long batch_key, const long long *label, const double *sign, int z_steps,
    const double *z_first, const double *g, const double *gp, const double *g_h0, double *h, double *s, double *H, double *G,
    double *X, tangent *T, tangent *row, double *Y, double *Y_past) {
    extern __shared__ double shared[];
    const int threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
    double *scratch = shared;                            // (3, threads), then (y, x) of tangents
    tangent *pulled = (tangent *)(scratch + 3 * threads); // (slots,)
    tangent *present = pulled + slots;                    // (slots,) row n
    tangent *weights = present + slots;                   // (active,)

    const long long i = blockIdx.x;
    const double *memory = vectors, *chi_weights = vectors + slots;
    H += i * slots, G += i * slots, X += i * slots, row += i * slots, T += i * packed;
    if (stein) Y_past += i * slots;

    double dots[3] = {0.0, 0.0, 0.0};
    for (int j = begin + thread; j < used; j += threads) {
        dots[0] += chi_weights[j] * X[j];
        dots[1] += memory[j] * H[j];
        if (stein) dots[2] += memory[j] * Y_past[j];
        present[j] = row[j];
    }
    for (int k = thread; k < active; k += threads) weights[k] = flushed((tangent)memory[rows[3 * k]]);
    block_sum<3>(dots, scratch);

    // What the past tangents pull: one pass over T, the bulk of all work.
    const double slope = a * (keep - eta * gp[i]);
    tangent *partial = (tangent *)scratch;
    for (int low = begin; low < used; low += blockDim.x) {
        int j = low + threadIdx.x;
        tangent sum = 0;
        for (int k = threadIdx.y * AHEAD; k < active; k += blockDim.y * AHEAD) {
            tangent loaded[AHEAD];
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                loaded[u] = k + u < active && j < rows[3 * (k + u) + 2] ? T[rows[3 * (k + u) + 1] + j] : tangent(0);
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                if (k + u < active) sum += weights[k + u] * loaded[u];
        }
        partial[thread] = sum;
        __syncthreads();
        if (threadIdx.y == 0 && j < used) {
            for (int y = 1; y < blockDim.y; y++) sum += partial[y * blockDim.x + threadIdx.x];
            pulled[j] = flushed((tangent)(tangent(slope) * present[j] + tangent(a * eta) * sum));
        }
        __syncthreads();
    }

    // Blocks of the history that become one.
    for (int k = 0; k < merges; k++) {
        const int *now = merge + 3 * k;
        int older = now[0], newer = now[1], into = now[2], later = max(older, newer);
        for (int r = thread; r < slots; r += threads)
            if (stop[r] > later) merge_vector(T + offset[r], now);
        __syncthreads();
        for (int j = thread; j < stop[older]; j += threads) {
            if (j < stop[into]) T[offset[into] + j] = T[offset[older] + j] + T[offset[newer] + j];
            T[offset[older] + j] = T[offset[newer] + j] = 0;
        }
        if (thread == 0) merge_vector(H, now);
        if (thread == 1) merge_vector(G, now);
        if (thread == 2) merge_vector(X, now);
        if (thread == 3) merge_vector(present, now);
        if (thread == 4) merge_vector(pulled, now);
        if (thread == 5 && stein) merge_vector(Y_past, now);
        __syncthreads();
    }

    for (int j = begin + thread; j < used; j += threads) {
        T[offset[slot] + j] = present[j];
        row[j] = j == slot ? (tangent)(-a * eta * gp[i]) : pulled[j];
    }
    if (thread > 0) return;

    double z, xi;
    normal2(noise_key, label[i], n, z, xi);
    z = n < z_steps ? z_first[i * z_steps + n] : z * sign[i];
    double chi = dots[0] + chi_sd * z;
    H[slot] = h[i], G[slot] = g[i], X[slot] = chi;
    h[i] = a * (keep * h[i] + eta * (dots[1] + chi - g[i]) + thermal * sign[i] * xi);
    if (stein) {
        Y_past[slot] = Y[i];
        Y[i] = a * (keep * Y[i] + eta * (dots[2] - gp[i] * (Y[i] + m) - g_h0[i]));
    }
    if (kind != FULL_BATCH) {
        double u, unused;
        uniform2(batch_key, label[i], n + 1, u, unused);
        s[i] = next_weight(kind, s[i], u, fraction, p_on, p_off);
    }
}
