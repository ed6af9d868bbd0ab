// Samples of the effective process on a GPU: what dmft/samples/process.py does on a CPU, names and equations as there.
//
// dmft/samples/gpu.py puts before this file: philox.cuh, the mini-batch laws, the CUDA source of the loss, the type `stored` of
// tangents and of the past (dmft/samples/state.py), the constants SCALARS, GROUPS, TEACHER_SCALARS, TINY, STABLE, BOUND, MOST, WIDE,
// LEAVES, GONE and HELD_BYTES of the Python sources, and OWN, AHEAD and BESIDE, how many numbers a thread loads before it uses them.
// Every sum has a fixed order, so that a run repeats to the last bit on one kind of card. What changes from step to step lies in
// memory, `Present`, `Step` and `Rates`, so that a step can be recorded and launched as a whole.
//
// Neighbouring threads work on neighbouring samples, and arrays over slots have the sample as their last index: H, G, X and Y_past
// (slots, count), the tangents T (packed, carriers), their present row and the next one (slots, carriers). So all of memory is
// read in whole lines, and a block of the history that is merged is a few contiguous stretches.

#define LANES 32

// What the loss needs besides the samples.
struct Present {
    double m, b, eta, scale;
};

// Numbers of a step, as gpu.py writes them; order, merges and which slots hold something afterwards lie behind them.
struct Step {
    long long active, used, merges, slot, n, kind, period, epochs_from;
};

// Rates of a step; memory and chi_weights, (slots,) each, lie behind them.
struct Rates {
    double eta, a, keep, chi_sd, thermal, fraction, p_on, p_off;
};

// Slots that hold something before the step, oldest level first: (slots,).
__device__ inline const long long *order_of(const Step *step) { return (const long long *)(step + 1); }

// (merges, 3): older, newer, into; the newest ones last.
__device__ inline const long long *merges_of(const Step *step, int slots) { return order_of(step) + slots; }

// Whether a gradient step moves a field further than any that stays in its trapping region: dmft/samples/lost.py. Eq. [lost].
__device__ inline bool leaves(double step, double field, double y) {
    return fabs(step) > LEAVES * (1.0 + fabs(field) + fabs(y));
}

// The loss of every sample, what it counts with in sums over the past, pull = weight g, and its terms in the averages, terms
// (SCALARS, count).
extern "C" __global__ void fields(int count, const Present *present, double L, int stein, const double *weight,
                                  const long long *line, const double *k, const double *y, const double *sd,
                                  const double *y_slope, const double *direct, const double *h, double *s, double *Y, double *g,
                                  double *gp, double *g_y, double *pull, double *terms) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const double w = weight[i], m = present->m, b = present->b, eta = present->eta, scale = present->scale;
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
    pull[i] = w * slope;
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

// bound (carriers,): weight times g' of every sample with tangents, bounded where [ibp] completes the response; and the last two
// of its terms, g' sum_J T_nJ and its square. Threads x over samples, y over slots, whose sums meet in shared memory.
extern "C" __global__ void bounds(int carriers, int slots, int count, int identity, const long long *carrier,
                                  const double *weight, const double *gp, const stored *row, double *bound, double *terms) {
    extern __shared__ double shared[];
    const int t = blockIdx.x * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    double response = 0.0, total = 0.0;
    if (t < carriers)
#pragma unroll 4
        for (int j = threadIdx.y; j < slots; j += blockDim.y) {
            const double x = row[(long long)j * carriers + t];
            response += fabs(x), total += x;
        }
    shared[threadIdx.y * blockDim.x + threadIdx.x] = response;
    shared[threads + threadIdx.y * blockDim.x + threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y != 0 || t >= carriers) return;
    for (int y = 1; y < blockDim.y; y++) {
        response += shared[y * blockDim.x + threadIdx.x];
        total += shared[threads + y * blockDim.x + threadIdx.x];
    }
    const long long i = carrier[t];
    bound[t] = weight[i] * gp[i] * (identity && response > MOST ? MOST / response : 1.0);
    if (!identity) return;
    terms[(long long)(SCALARS - 2) * count + i] = bound[t] * total;
    terms[(long long)(SCALARS - 1) * count + i] = bound[t] * total * (bound[t] * total) / weight[i];
}

// Random starts: what `row_sums` adds up with the weight k^2, as dmft/samples/teacher_sums.py: pull and bound of every sample, and
// terms (TEACHER_SCALARS, count). The response of a sample, bounded, is in the terms of its row, `known`.
extern "C" __global__ void teacher_terms(int count, int identity, const double *weight, const long long *line, const double *k,
                                         const double *h, const double *g, const double *gp, const double *bound,
                                         const double *known, double *teacher_pull, double *teacher_bound, double *terms) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const double k2 = k[i] * k[i], w = weight[i] * k2;
    const long long t = line[i];
    teacher_pull[i] = w * g[i];
    if (t >= 0) teacher_bound[t] = k2 * bound[t];
    const double response = identity && t >= 0 ? k2 * known[(long long)(SCALARS - 2) * count + i] : 0.0;
    const double row[TEACHER_SCALARS] = {w * gp[i],           w * g[i] * g[i], w * g[i] * h[i], w * g[i] * g[i] * k2, response,
                                         response * response / weight[i]};
    for (int c = 0; c < TEACHER_SCALARS; c++) terms[(long long)c * count + i] = row[c];
}

__device__ inline double warp_sum(double x) {
    for (int step = LANES / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

// out (blocks, parts, scalars + GROUPS slots): sums over the samples of each part of a block, OWN a lane: the terms, then for every
// slot that holds something pull G, bound T_n and pull H. One warp a slot or term. cut (blocks + 1,): where the samples with
// tangents of a block begin. Grid (blocks parts, any number).
extern "C" __global__ void row_sums(int count, int carriers, int block, int parts, int slots, int scalars, int identity,
                                    const long long *held, const int *cut, const double *pull, const double *bound,
                                    const double *terms, const double *G, const stored *row, const stored *H, double *out) {
    const int lane = threadIdx.x % LANES, warps = blockDim.x / LANES, columns = scalars + GROUPS * slots;
    const int b = blockIdx.x / parts, begin = blockIdx.x % parts * OWN * LANES;
    const int first = b * block + begin + lane, last = min(min(b * block + begin + OWN * LANES, (b + 1) * block), count);
    const int t_first = cut[b] + begin, t_last = min(t_first + OWN * LANES, cut[b + 1]);
    double own[OWN];
#pragma unroll
    for (int r = 0; r < OWN; r++) own[r] = first + r * LANES < last ? pull[first + r * LANES] : 0.0;
    out += (long long)blockIdx.x * columns;
    for (int q = blockIdx.y * warps + threadIdx.x / LANES; q < slots + scalars; q += gridDim.y * warps) {
        const bool is_term = q >= slots;
        double products = 0.0, responses = 0.0, overlaps = 0.0;
        if (is_term || held[q]) {
            const double *left = is_term ? terms + (long long)(q - slots) * count : G + (long long)q * count;
            const stored *right = H + (long long)q * count;
            double x[OWN];
            stored y[OWN];
#pragma unroll
            for (int r = 0; r < OWN; r++) {
                const int i = first + r * LANES;
                x[r] = i < last ? left[i] : 0.0;
                y[r] = i < last && !is_term && identity ? right[i] : stored(0);
            }
#pragma unroll
            for (int r = 0; r < OWN; r++) products += (is_term ? 1.0 : own[r]) * x[r], overlaps += own[r] * y[r];
            if (!is_term)
                for (int t = t_first + lane; t < t_last; t += LANES) responses += bound[t] * row[(long long)q * carriers + t];
        }
        products = warp_sum(products), responses = warp_sum(responses), overlaps = warp_sum(overlaps);
        if (lane != 0) continue;
        if (is_term) out[q - slots] = products;
        else out[scalars + q] = products, out[scalars + slots + q] = responses, out[scalars + 2 * slots + q] = overlaps;
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

// v: the past of one sample, whose slots are `stride` apart.
template <typename real> __device__ inline void merge_past(real *v, long long stride, int merges, const long long *merge) {
    for (int k = 0; k < merges; k++) {
        const long long older = merge[3 * k], newer = merge[3 * k + 1], into = merge[3 * k + 2];
        v[into * stride] = v[older * stride] + v[newer * stride];
        v[older * stride] = v[newer * stride] = 0;
    }
}

// Slots of the past that a thread loads before it uses them: as many bytes in single precision as in double.
#define PAST_AHEAD (AHEAD * (int)(sizeof(double) / sizeof(stored)))

// A slot of the past that holds something, and how strongly step n is drawn to it.
struct Held {
    int slot;
    double memory, chi_weight;
};

// From step n to n + 1: the noise, the next field and the next Y of every sample; blocks of its past are merged, and step n goes
// into the new slot. One thread a sample. Eqs. [dmft-chi], [dmft-h].
extern "C" __global__ void move(int count, int slots, const Step *step, const Rates *rates, int stein,
                                unsigned long long noise_key, unsigned long long batch_key, const long long *name,
                                const double *sign, int z_steps, const double *z_first, int known, const long long *changes,
                                const double *g, const double *gp, const double *g_y, double *h, double *s, stored *H, double *G,
                                stored *X, double *Y, stored *Y_past) {
    extern __shared__ double shared[];
    Held *past = (Held *)shared; // (active,) the same for all samples
    const long long *order = order_of(step), *merge = merges_of(step, slots);
    const double *memory = (const double *)(rates + 1), *chi_weights = memory + slots;
    const int active = step->active, merges = step->merges;
    for (int k = threadIdx.x; k < active; k += blockDim.x) past[k] = {(int)order[k], memory[order[k]], chi_weights[order[k]]};
    __syncthreads();

    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x, stride = count, slot = step->slot, n = step->n;
    if (i >= count) return;
    const double eta = rates->eta, a = rates->a, keep = rates->keep;
    H += i, G += i, X += i, Y_past += stein ? i : 0;
    double noise = 0.0, pull = 0.0, teacher = 0.0;
    for (int k = 0; k < active; k += PAST_AHEAD) {
        stored x[PAST_AHEAD], field[PAST_AHEAD], response[PAST_AHEAD];
#pragma unroll
        for (int r = 0; r < PAST_AHEAD; r++) {
            const bool there = k + r < active;
            const long long place = there ? past[k + r].slot * stride : 0;
            x[r] = there ? X[place] : stored(0), field[r] = there ? H[place] : stored(0);
            response[r] = there && stein ? Y_past[place] : stored(0);
        }
#pragma unroll
        for (int r = 0; r < PAST_AHEAD; r++)
            if (k + r < active) {
                noise += past[k + r].chi_weight * x[r];
                pull += past[k + r].memory * field[r];
                teacher += past[k + r].memory * response[r];
            }
    }
    double z, xi;
    normal2(noise_key, name[i], n, z, xi);
    z = n < z_steps ? z_first[i * z_steps + n] : z * sign[i];
    const double chi = noise + rates->chi_sd * z;
    merge_past(H, stride, merges, merge), merge_past(G, stride, merges, merge), merge_past(X, stride, merges, merge);
    H[slot * stride] = h[i], G[slot * stride] = g[i], X[slot * stride] = chi;
    h[i] = a * (keep * h[i] + eta * (pull + chi - g[i]) + rates->thermal * sign[i] * xi);
    if (stein) {
        merge_past(Y_past, stride, merges, merge);
        Y_past[slot * stride] = Y[i];
        const double response = a * (keep * Y[i] + eta * (teacher - gp[i] * Y[i] - g_y[i]));
        Y[i] = eta * gp[i] > STABLE ? bounded(response) : response;
    }
    if (s[i] >= 0.0)
        s[i] = own_weight({(int)step->kind, rates->fraction, rates->p_on, rates->p_off, step->period, step->epochs_from}, s[i],
                          batch_key, name[i], n, known, changes + i * known);
}

static_assert(sizeof(Held) <= HELD_BYTES, "gpu.py asks for too little shared memory");

// A row of the tangents that is in use: its slot, where it begins, how far it goes, and how strongly step n pulls on it.
struct Pull {
    int slot, offset, length;
    stored weight;
};
static_assert(sizeof(Pull) <= HELD_BYTES, "gpu.py asks for too little shared memory");

// next (slots, carriers): the next row of tangents of every sample that has them, by one pass over T. One block of threads a slot as
// source, and BESIDE samples a thread. Grid (samples, slots). Eq. [dmft-T].
extern "C" __global__ void next_tangents(int carriers, int slots, const Step *step, const Rates *rates, const int *offset,
                                         const int *stop, const long long *carrier, const double *gp, const stored *T,
                                         const stored *row, stored *next) {
    extern __shared__ double shared[];
    Pull *pulls = (Pull *)shared; // (active,) the same for all samples; older rows are not longer
    const long long *order = order_of(step);
    const double *memory = (const double *)(rates + 1);
    const int active = step->active;
    for (int k = threadIdx.x; k < active; k += blockDim.x)
        pulls[k] = {(int)order[k], offset[order[k]], stop[order[k]], flushed((stored)memory[order[k]])};
    __syncthreads();

    const double eta = rates->eta, a = rates->a;
    const long long stride = carriers, t = (long long)blockIdx.x * blockDim.x * BESIDE + threadIdx.x;
    if (blockIdx.y >= active) return; // other slots respond to nothing
    const int j = pulls[blockIdx.y].slot;
    int first = 0; // of the rows that reach column j
    for (int end = active; first < end;) {
        const int middle = (first + end) / 2;
        if (pulls[middle].length > j) end = middle;
        else first = middle + 1;
    }
    stored sum[BESIDE] = {};
    for (int k = first; k < active; k += AHEAD) {
        stored loaded[AHEAD][BESIDE];
#pragma unroll
        for (int r = 0; r < AHEAD; r++) {
            const stored *from = T + (k + r < active ? pulls[k + r].offset + j : 0) * stride + t;
#pragma unroll
            for (int v = 0; v < BESIDE; v++)
                loaded[r][v] = k + r < active && t + v * blockDim.x < carriers ? from[v * blockDim.x] : stored(0);
        }
#pragma unroll
        for (int r = 0; r < AHEAD; r++)
            if (k + r < active)
#pragma unroll
                for (int v = 0; v < BESIDE; v++) sum[v] += pulls[k + r].weight * loaded[r][v];
    }
#pragma unroll
    for (int v = 0; v < BESIDE; v++) {
        const long long own = t + v * blockDim.x;
        if (own >= carriers) continue;
        const double curvature = gp[carrier[own]];
        const stored slope = a * (rates->keep - eta * curvature), strength = a * eta;
        const stored response = flushed((stored)(slope * row[j * stride + own] + strength * sum[v]));
        next[j * stride + own] = eta * curvature > STABLE ? bounded(response) : response;
    }
}

// Blocks of the history that become one, as columns: of every row of the tangents, of the present one and of the next. Grid
// (samples, slots + 2). All merges of columns may come before those of rows: both are sums, and a row has no column newer than its
// level.
extern "C" __global__ void merge_columns(int carriers, int slots, const Step *step, const int *offset, const int *stop, stored *T,
                                         stored *row, stored *next) {
    const long long *merge = merges_of(step, slots);
    const long long t = (long long)blockIdx.x * blockDim.x + threadIdx.x, stride = carriers;
    const int r = blockIdx.y, merges = step->merges;
    if (t >= carriers) return;
    if (r == slots) return merge_past(row + t, stride, merges, merge);
    if (r > slots) return merge_past(next + t, stride, merges, merge);
    for (int k = 0; k < merges; k++)
        if (stop[r] > max(merge[3 * k], merge[3 * k + 1])) merge_past(T + offset[r] * stride + t, stride, 1, merge + 3 * k);
}

// The same as rows of the tangents; then row n goes into the new slot and row n + 1 becomes the present one. Grid (samples, any
// number).
extern "C" __global__ void merge_rows(int carriers, int slots, const Step *step, const Rates *rates, const int *offset,
                                      const int *stop, const long long *carrier, const double *gp, stored *T, stored *row,
                                      const stored *next) {
    const long long t = (long long)blockIdx.x * blockDim.x + threadIdx.x, stride = carriers, slot = step->slot;
    const long long *merge = merges_of(step, slots);
    const int merges = step->merges, used = step->used;
    if (t >= carriers) return;
    T += t, row += t, next += t;
    const stored now = -rates->a * rates->eta * gp[carrier[t]];
    for (int j = blockIdx.y; j < used; j += gridDim.y) {
        for (int k = 0; k < merges; k++) {
            const long long older = merge[3 * k], newer = merge[3 * k + 1], into = merge[3 * k + 2];
            if (j >= stop[older]) continue;
            if (j < stop[into]) T[(offset[into] + j) * stride] = T[(offset[older] + j) * stride] + T[(offset[newer] + j) * stride];
            T[(offset[older] + j) * stride] = T[(offset[newer] + j) * stride] = 0;
        }
        T[(offset[slot] + j) * stride] = row[j * stride];
        row[j * stride] = j == slot ? now : next[j * stride];
    }
}
