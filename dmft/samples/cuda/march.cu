// Samples of the effective process on a GPU: what dmft/samples/process.py does on a CPU, names and equations as there.
//
// dmft/samples/gpu.py puts before this file: philox.cuh, the mini-batch laws, the CUDA source of the loss, the type `tangent`, the
// constants SCALARS, GROUPS, TEACHER_SCALARS, TEACHER_GROUPS, TINY, STABLE, BOUND, MOST, WIDE, LEAVES and GONE of the Python
// sources, and COLUMNS, the number of columns of tangents that a lane adds up at a time. Every sum has a fixed order, so that a
// run repeats to the last bit on one kind of card.

#define LANES 32
#define AHEAD 2  // rows of tangents that a lane loads before it adds them

// Whether a gradient step moves a field further than any that stays in its trapping region: dmft/samples/lost.py. Eq. [lost].
__device__ inline bool leaves(double step, double field, double y) {
    return fabs(step) > LEAVES * (1.0 + fabs(field) + fabs(y));
}

// The loss of every sample, and its terms in the averages, terms (SCALARS, count).
extern "C" __global__ void fields(int count, double m, double b, double eta, double scale, double L, int stein,
                                  const double *weight, const long long *line, const double *k, const double *y,
                                  const double *sd, const double *y_slope, const double *direct, const double *h, double *s, double *Y, double *g, double *gp, double *g_y,
                                  double *terms) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const double w = weight[i];
    double raw = h[i] + m * k[i], field = sd[i] * raw + b, batch = scale * s[i] * sd[i];
    double slope = batch * loss_dv<double>(field, y[i]), curvature = batch * sd[i] * loss_d2v<double>(field, y[i]);
    double mixed = batch * loss_dv_dh0<double>(field, y[i]) * y_slope[i], loss = loss_v<double>(field, y[i]);
    const double step = eta * sd[i] * slope;
    if (s[i] < 0.0 || (leaves(step, field, y[i]) &&
                       leaves(eta * sd[i] * scale * sd[i] * loss_dv<double>(field - step, y[i]), field - step, y[i]))) {
        s[i] = GONE, Y[i] = 0.0;
        slope = curvature = mixed = loss = 0.0;
    }
    g[i] = slope;
    gp[i] = curvature;
    g_y[i] = mixed;
    double row[SCALARS] = {w * curvature,
                           w * slope * k[i],
                           w * loss,
                           w * slope * raw,
                           w * slope * slope,
                           stein ? w * curvature * Y[i] + w * mixed : direct[i] * slope,
                           stein && fabs(Y[i]) > WIDE ? w : 0.0,
                           eta * curvature > STABLE ? w : 0.0,
                           y[i] * (L > 0.0 ? field * field - L * L : field) < 0.0 ? w : 0.0,
                           w * slope / sd[i],
                           s[i] < 0.0 ? w : 0.0,
                           line[i] >= 0 ? w : 0.0}; // the last two terms: `bounds`
    for (int c = 0; c < SCALARS; c++) terms[(long long)c * count + i] = row[c];
}

__device__ inline double warp_sum(double x) {
    for (int step = LANES / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

// out (count,): weight times g' of every sample with tangents, bounded where [ibp] completes the response; and the last two
// of its terms, g' sum_J T_nJ and its square. One warp a sample.
extern "C" __global__ void bounds(int carriers, int slots, int count, int identity, const long long *carrier,
                                  const double *weight, const double *gp, const tangent *row, double *out, double *terms) {
    const int lane = threadIdx.x % LANES;
    const long long t = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
    if (t >= carriers) return;
    double response = 0.0, total = 0.0;
    for (int j = lane; j < slots; j += LANES) {
        response += fabs((double)row[t * slots + j]);
        total += (double)row[t * slots + j];
    }
    response = warp_sum(response), total = warp_sum(total);
    const long long i = carrier[t];
    if (lane != 0) return;
    out[i] = weight[i] * gp[i] * (identity && response > MOST ? MOST / response : 1.0);
    if (!identity) return;
    terms[(long long)(SCALARS - 2) * count + i] = out[i] * total;
    terms[(long long)(SCALARS - 1) * count + i] = out[i] * total * (out[i] * total) / weight[i];
}

// out (blocks, parts, SCALARS + GROUPS slots): sums over the samples of each part of a block. Grid (blocks, parts).
extern "C" __global__ void row_sums(int count, int block, int part, int slots, int identity, const double *weight,
                                    const long long *line_of, const double *g, const double *bound, const double *terms,
                                    const double *G, const tangent *row, const double *H, double *out) {
    int first = blockIdx.x * block + blockIdx.y * part, columns = SCALARS + GROUPS * slots;
    int last = min(min(first + part, (int)(blockIdx.x + 1) * block), count);
    double *line = out + ((long long)blockIdx.x * gridDim.y + blockIdx.y) * columns;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
        double sum = 0.0;
        const int group = (c - SCALARS) / slots, slot = (c - SCALARS) % slots;
        if (c < SCALARS) {
#pragma unroll 8
            for (int i = first; i < last; i++) sum += terms[(long long)c * count + i];
        } else if (group == 0) {
#pragma unroll 8
            for (int i = first; i < last; i++) sum += weight[i] * g[i] * G[(long long)i * slots + slot];
        } else if (group == 1) {
            for (int i = first; i < last; i++)
                if (line_of[i] >= 0) sum += bound[i] * row[line_of[i] * slots + slot];
        } else if (identity) {
#pragma unroll 8
            for (int i = first; i < last; i++) sum += weight[i] * g[i] * H[(long long)i * slots + slot];
        }
        line[c] = sum;
    }
}

// Random starts: sums with the weight k^2, as dmft/samples/teacher_sums.py. out (blocks, parts, TEACHER_SCALARS + TEACHER_GROUPS slots).
// Grid as row_sums. The response of a sample, bounded, is in its terms before this.
extern "C" __global__ void teacher_sums(int count, int block, int part, int slots, int identity, const double *weight,
                                        const long long *line_of, const double *k, const double *h, const double *g,
                                        const double *gp, const double *bound, const double *terms, const double *G,
                                        const tangent *row, const double *H, double *out) {
    const int first = blockIdx.x * block + blockIdx.y * part, columns = TEACHER_SCALARS + TEACHER_GROUPS * slots;
    const int last = min(min(first + part, (int)(blockIdx.x + 1) * block), count);
    double *line = out + ((long long)blockIdx.x * gridDim.y + blockIdx.y) * columns;
    const double *response = terms + (long long)(SCALARS - 2) * count;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
        double sum = 0.0;
        const int group = c < TEACHER_SCALARS ? -1 : (c - TEACHER_SCALARS) / slots, slot = (c - TEACHER_SCALARS) % slots;
        for (int i = first; i < last; i++) {
            const double k2 = k[i] * k[i], w = weight[i] * k2;
            if (group == 0) sum += w * g[i] * G[(long long)i * slots + slot];
            else if (group == 1) sum += line_of[i] >= 0 ? k2 * bound[i] * row[line_of[i] * slots + slot] : 0.0;
            else if (group == 2) sum += identity ? w * g[i] * H[(long long)i * slots + slot] : 0.0;
            else if (c == 0) sum += w * gp[i];
            else if (c == 1) sum += w * g[i] * g[i];
            else if (c == 2) sum += w * g[i] * h[i];
            else if (c == 3) sum += w * g[i] * g[i] * k2;
            else if (identity && line_of[i] >= 0) {
                const double own = k2 * response[i];
                sum += c == 4 ? own : own * own / weight[i];
            }
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

template <typename real> __device__ inline real flushed(real x) { return fabs((double)x) < TINY ? real(0) : x; }
template <typename real> __device__ inline real bounded(real x) { return min(max(x, real(-BOUND)), real(BOUND)); }

template <typename real> __device__ inline void merge_vector(real *v, int older, int newer, int into) {
    v[into] = v[older] + v[newer];
    v[older] = v[newer] = 0;
}

// The past of every sample at step n: dots (3, count) = chi_weights.X, memory.H and memory.Y_past. One warp a sample, lanes over
// the slots. vectors (2, slots): memory and chi_weights. Slots before `begin`, of levels that have not been reached, hold nothing.
extern "C" __global__ void past(int count, int slots, int begin, int used, int stein, const double *vectors, double *dots,
                                const double *H, const double *X, const double *Y_past) {
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    const double *memory = vectors, *chi_weights = vectors + slots;
    const long long i = (long long)blockIdx.x * warps + warp;
    if (i >= count) return;
    H += i * slots, X += i * slots;
    if (stein) Y_past += i * slots;
    double noise = 0.0, pull = 0.0, teacher = 0.0;
    for (int j = begin + lane; j < used; j += LANES) {
        noise += chi_weights[j] * X[j];
        pull += memory[j] * H[j];
        if (stein) teacher += memory[j] * Y_past[j];
    }
    noise = warp_sum(noise), pull = warp_sum(pull), teacher = warp_sum(teacher);
    if (lane == 0) dots[i] = noise, dots[count + i] = pull, dots[2ll * count + i] = teacher;
}

// A row of the tangents that is in use: where it begins, how far it goes, and how strongly step n pulls on it.
struct Pull {
    int offset, length;
    tangent weight;
};

// next (carriers, slots): the next row of tangents of every sample that has them, by one pass over T. One warp a sample, lanes
// over the slots as sources. rows (active, 3): slot, offset and length of the rows that hold something. Eq. [dmft-T].
extern "C" __global__ void next_tangents(int carriers, int slots, int begin, int used, long long packed, double eta, double a,
                                         double keep, int active, const int *rows, const double *memory,
                                         const long long *carrier, const double *gp, const tangent *T, const tangent *row,
                                         tangent *next) {
    extern __shared__ double shared[];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    Pull *pulls = (Pull *)shared; // (active,) the same for all samples
    for (int k = threadIdx.x; k < active; k += blockDim.x)
        pulls[k] = {rows[3 * k + 1], rows[3 * k + 2], flushed((tangent)memory[rows[3 * k]])};
    __syncthreads();

    const long long t = (long long)blockIdx.x * warps + warp;
    if (t >= carriers) return;
    row += t * slots, next += t * slots, T += t * packed;
    const double curvature = gp[carrier[t]];
    const tangent slope = a * (keep - eta * curvature), strength = a * eta;
    const bool overshoots = eta * curvature > STABLE;
    for (int low = begin; low < used; low += LANES * COLUMNS) {
        tangent sum[COLUMNS] = {};
        for (int k = 0; k < active; k += AHEAD) {
            tangent loaded[AHEAD][COLUMNS];
#pragma unroll
            for (int r = 0; r < AHEAD; r++) {
                const int length = k + r < active ? pulls[k + r].length : 0;
                const tangent *from = T + (k + r < active ? pulls[k + r].offset : 0);
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) {
                    const int j = low + LANES * c + lane;
                    loaded[r][c] = j < length ? from[j] : tangent(0);
                }
            }
#pragma unroll
            for (int r = 0; r < AHEAD; r++)
                if (k + r < active)
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++) sum[c] += pulls[k + r].weight * loaded[r][c];
        }
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            const int j = low + LANES * c + lane;
            if (j >= used) continue;
            const tangent response = flushed((tangent)(slope * row[j] + strength * sum[c]));
            next[j] = overshoots ? bounded(response) : response;
        }
    }
}

// Blocks of the history that become one, as columns: of every row of the tangents, and of six vectors. merge (merges, 3):
// older, newer, into; the newest ones last. Grid (samples, slots + 6): neighbouring threads do the same to other samples.
// All merges of columns may come before those of rows: both are sums, and a row has no column newer than its level.
extern "C" __global__ void merge_columns(int count, int carriers, int slots, long long packed, int stein, int merges, const int *merge,
                                         const int *offset, const int *stop, double *H, double *G, double *X, tangent *T,
                                         tangent *row, double *Y_past, tangent *next) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x, line = i * slots;
    const int r = blockIdx.y, vector = r - slots;
    if (i >= (vector < 0 || vector == 3 || vector == 4 ? carriers : count)) return;
    for (int k = 0; k < merges; k++) {
        const int older = merge[3 * k], newer = merge[3 * k + 1], into = merge[3 * k + 2];
        if (vector < 0) {
            if (stop[r] > max(older, newer)) merge_vector(T + i * packed + offset[r], older, newer, into);
        } else if (vector == 0) merge_vector(H + line, older, newer, into);
        else if (vector == 1) merge_vector(G + line, older, newer, into);
        else if (vector == 2) merge_vector(X + line, older, newer, into);
        else if (vector == 3) merge_vector(row + line, older, newer, into);
        else if (vector == 4) merge_vector(next + line, older, newer, into);
        else if (stein) merge_vector(Y_past + line, older, newer, into);
    }
}

// The same as rows of the tangents; then row n goes into `slot` and row n + 1 becomes the present one. Threads x over
// columns, y over samples.
extern "C" __global__ void merge_rows(int carriers, int slots, int begin, int used, long long packed, double eta, double a,
                                      int merges, int slot, const int *merge, const int *offset, const int *stop,
                                      const long long *carrier, const double *gp, tangent *T, tangent *row,
                                      const tangent *next) {
    const long long t = (long long)blockIdx.x * blockDim.y + threadIdx.y;
    if (t >= carriers) return;
    T += t * packed, row += t * slots, next += t * slots;
    const tangent now = -a * eta * gp[carrier[t]];
    for (int j = begin + threadIdx.x; j < used; j += blockDim.x) {
        for (int k = 0; k < merges; k++) {
            const int older = merge[3 * k], newer = merge[3 * k + 1], into = merge[3 * k + 2];
            if (j >= stop[older]) continue;
            if (j < stop[into]) T[offset[into] + j] = T[offset[older] + j] + T[offset[newer] + j];
            T[offset[older] + j] = T[offset[newer] + j] = 0;
        }
        T[offset[slot] + j] = row[j];
        row[j] = j == slot ? now : next[j];
    }
}

// From step n to n + 1, once the past has been seen to; step n goes into `slot`. One thread a sample. Eq. [dmft-h].
extern "C" __global__ void move(int count, int slots, int slot, long long n, double eta, double a, double keep,
                                double chi_sd, double thermal, int stein, int kind, double fraction, double p_on,
                                double p_off, long long period, long long epochs_from, unsigned long long noise_key, unsigned long long batch_key,
                                const long long *name, const double *sign, int z_steps, const double *z_first,
                                int known, const long long *changes, const double *g, const double *gp,
                                const double *g_y, const double *dots, double *h,
                                double *s, double *H, double *G, double *X, double *Y, double *Y_past) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    double z, xi;
    normal2(noise_key, name[i], n, z, xi);
    z = n < z_steps ? z_first[i * z_steps + n] : z * sign[i];
    const double chi = dots[i] + chi_sd * z;
    H[i * slots + slot] = h[i], G[i * slots + slot] = g[i], X[i * slots + slot] = chi;
    h[i] = a * (keep * h[i] + eta * (dots[count + i] + chi - g[i]) + thermal * sign[i] * xi);
    if (stein) {
        Y_past[i * slots + slot] = Y[i];
        const double response = a * (keep * Y[i] + eta * (dots[2ll * count + i] - gp[i] * Y[i] - g_y[i]));
        Y[i] = eta * gp[i] > STABLE ? bounded(response) : response;
    }
    if (s[i] >= 0.0)
        s[i] = own_weight({kind, fraction, p_on, p_off, period, epochs_from}, s[i], batch_key, name[i], n, known, changes + i * known);
}
