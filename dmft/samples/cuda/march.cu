// Samples of the effective process on a GPU: what dmft/samples/process.py does on a CPU, names and equations as there.
//
// dmft/samples/launches.py puts before this file: philox.cuh, the mini-batch laws, the functions of the loss and those of
// formulas.py, translated from Python, the structs Rates and Present (dmft/equations/state.py), observables and their number
// AVERAGES where there are any, the type `stored` of tangents and of the past (dmft/samples/state.py), the columns GP .. CARRIED
// and CURVATURE .. NOISE of sums over samples, the constants SCALARS, GROUPS, OVERLAP_SCALARS, LOST_STEP, the bounds of
// tangents.py, GONE, NONE of the Python sources, LANES, FOUR, ACROSS, MOVERS and HELD_BYTES of its own, STEIN and IDENTITY (whether
// these estimators are used), OWN, AHEAD and ROWS_AHEAD: how much a thread loads before it uses it, and ROW_SHARES: warps that
// share out the rows of the tangents of the same samples. Loads are not bound to conditions, so that they can be under way
// together. Every sum has a fixed order, so that a run repeats to the last bit on one kind of card. What changes from step to step
// lies in memory, `Present`, `Step` and `Rates`, so that a step can be recorded and launched as a whole.
//
// Solutions of equal shape go by one launch: blockIdx.z is the solution, and it is the first index of every array but `Step` and
// the tables of the history, which they have in common. One whose on[] is 0 stays as it is.
//
// Neighbouring threads work on neighbouring samples, and arrays over slots have the sample as their last index: H, G, X and Y_past
// (slots, width), the tangents T (packed, span), their present row and the next one (slots, span). Here width and span are the
// numbers of samples, and of samples with tangents, rounded up to whole lines of memory, here and in arrays with a number a sample;
// what is rounded up is zero, because sums go over it. So all of memory is read in whole lines, four samples of a thread at a time
// (a block of samples has a multiple of four), and a block of the history that is merged is a few contiguous stretches.

// Four neighbouring samples, the first of which lies at a multiple of 16 bytes: loaded and stored as a whole.
template <typename real> struct __align__(16) Four {
    real at[FOUR];
};
template <typename real> __device__ inline Four<real> operator+(Four<real> one, const Four<real> &other) {
    for (int v = 0; v < FOUR; v++) one.at[v] += other.at[v];
    return one;
}
// Loaded as what is soon of no use, so that it does not push the matrices of the equations out of the card's cache.
__device__ inline Four<float> four(const float *from) {
    const float4 all = __ldcs((const float4 *)from);
    return {{all.x, all.y, all.z, all.w}};
}
__device__ inline Four<double> four(const double *from) {
    const double2 first = __ldcs((const double2 *)from), second = __ldcs((const double2 *)from + 1);
    return {{first.x, first.y, second.x, second.y}};
}

// Rates of a step lie one behind the other for all solutions; behind them memory and chi_weights of each, (slots,). A second
// Present is for rules that look ahead.
__device__ inline const double *my_memory(const Rates *rates, int slots) {
    return mine((const double *)(rates + gridDim.z), 2 * slots);
}

// Sums of three numbers over the lanes of a warp: that of a in lane 0, of b in lane 16, of c in lane 8.
__device__ inline double warp_sums(double a, double b, double c) {
    const bool upper = threadIdx.x & 16, second = threadIdx.x & 8;
    const double two = (upper ? b : a) + __shfl_xor_sync(0xffffffffu, upper ? a : b, 16);
    const double one = c + __shfl_xor_sync(0xffffffffu, c, 16);
    double sum = (second ? one : two) + __shfl_xor_sync(0xffffffffu, second ? two : one, 8);
    for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    return sum;
}

// out[c] = sum over the threads of a block of terms[c]; their warps meet in shared memory, (warps, terms).
template <int N> __device__ inline void part_sums(const double (&terms)[N], double *shared, double *out) {
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    for (int c = 0; c < N; c += 3) {
        const double sum = warp_sums(terms[c], c + 1 < N ? terms[c + 1] : 0.0, c + 2 < N ? terms[c + 2] : 0.0);
        const int which = c + (lane == 0 ? 0 : lane == 16 ? 1 : 2);
        if ((lane == 0 || lane == 16 || lane == 8) && which < N) shared[warp * N + which] = sum;
    }
    __syncthreads();
    for (int c = threadIdx.x; c < N; c += blockDim.x) {
        double sum = 0.0;
        for (int w = 0; w < warps; w++) sum += shared[w * N + c];
        out[c] = sum;
    }
}

// The loss of every sample, what it counts with in sums over the past, weighted_g = weight g, and sums of its terms in the averages
// but for the last two. Of samples with tangents bound (span,), weight times g', bounded where [ibp] completes the response; and
// these last two terms, ends (2, span), g' sum_J T_nJ and its square, from `response_totals`.
extern "C" __global__ void __launch_bounds__(PART)
    fields(const int *on, int count, int width, int block, int parts, int columns, int span, const Present *present,
           const double *weight, const long long *tangent_index, const double *k, const double *y, const double *sd,
           const double *y_slope, const double *direct, const double *h, double *s, double *Y, const double *response, double *g,
           double *gp, double *g_y, double *weighted_g, double *bound, double *ends, double *out) {
    extern __shared__ __align__(16) double shared[];
    if (!on[blockIdx.z]) return;
    const auto [i, there] = own_sample(count, width, block, parts);
    present = mine(present, 2), response = mine(response, 2LL * span), bound = mine(bound, span), ends = mine(ends, 2LL * span);
    double terms[SCALARS - 2];
    for (double &term : terms) term = there ? UNFILLED : 0.0;
    if (there) {
        const double w = weight[i], m = present->m, b = present->b, eta = present->eta, scale = present->scale;
        const double raw = raw_field<double>(h[i], m, k[i]), field = field_of<double>(sd[i], h[i], m, k[i], b);
        const double batch = batch_of<double>(scale, s[i], sd[i]);
        double slope = gradient_of<double>(batch, loss_dv<double>(field, y[i])), loss = loss_v<double>(field, y[i]);
        double curvature = curvature_of<double>(batch, sd[i], loss_d2v<double>(field, y[i]));
        double mixed = label_slope_of<double>(batch, loss_dv_dy<double>(field, y[i]), y_slope[i]);
        const double step = step_of<double>(eta, sd[i], slope);
        if (s[i] < 0.0 || (leaves<double>(step, field, y[i], LOST_STEP) &&
                           leaves<double>(next_step_of<double>(eta, sd[i], scale, loss_dv<double>(field - step, y[i])),
                                          field - step, y[i], LOST_STEP))) {
            s[i] = GONE, Y[i] = 0.0;
            slope = curvature = mixed = loss = 0.0;
        }
        g[i] = slope;
        gp[i] = curvature;
        g_y[i] = mixed;
        weighted_g[i] = w * slope;
        terms[GP] = w * curvature; // [dmft-nu]
        terms[GK] = moment_of<double>(w, slope, k[i]); // [dmft-mu]
        terms[LOSSES] = w * loss; // [loss]
        terms[GH] = moment_of<double>(w, slope, raw);
        terms[GG] = moment_of<double>(w, slope, slope); // [dmft-MC]
        terms[LABEL] = STEIN ? label_moment_of<double>(w, curvature, Y[i], mixed) : direct[i] * slope;
        terms[WILD] = STEIN && fabs(Y[i]) > Y_OUTLIER ? w : 0.0;
        terms[UNSTABLE] = overshoots<double>(eta, curvature) ? w : 0.0;
        terms[WRONG] = loss_is_wrong<double>(field, y[i]) ? w : 0.0;
        terms[PUSH] = push_of<double>(w, slope, sd[i]);
        terms[LOST] = s[i] < 0.0 ? w : 0.0; // [lost]
        terms[CARRIED] = tangent_index[i] >= 0 ? w : 0.0;
        if (const long long t = tangent_index[i]; t >= 0) {
            const double counts = w * curvature * (IDENTITY ? share_of<double>(response[t], TANGENT_SUM_MAX) : 1.0);
            const double total = IDENTITY ? counts * response[span + t] : 0.0;
            bound[t] = counts, ends[t] = total, ends[span + t] = IDENTITY ? square_of<double>(total, w) : 0.0;
        }
    }
    part_sums(terms, shared, own_sums(out, columns));
}

#ifdef AVERAGES
// Sums of the values of a sample that observables average, at fields sd (h + m k) + b; lost samples count with 0, as in the loss.
extern "C" __global__ void __launch_bounds__(PART)
    averages(const int *on, int count, int width, int block, int parts, int columns, const Present *present, const double *weight,
             const double *k, const double *y, const double *sd, const double *h, const double *s, double *out) {
    extern __shared__ __align__(16) double shared[];
    if (!on[blockIdx.z]) return;
    const auto [i, there] = own_sample(count, width, block, parts);
    present = mine(present, 2);
    double terms[AVERAGES] = {};
    if (there && s[i] >= 0.0) {
        average_values(field_of<double>(sd[i], h[i], present->m, k[i], present->b), y[i], sd[i] * k[i], terms);
        for (double &term : terms) term *= weight[i];
    }
    part_sums(terms, shared, own_sums(out, columns));
}
#endif

// Of every sample with tangents sum_J |T_nJ| and sum_J T_nJ, (2, span). The warps of a block of threads share out the slots of
// ACROSS samples; their sums meet in shared memory, (2, warps, ACROSS).
extern "C" __global__ void response_totals(const int *on, int carriers, int span, int slots, const stored *row, double *out) {
    extern __shared__ __align__(16) double shared[];
    if (!on[blockIdx.z]) return;
    row = mine(row, (long long)slots * span), out = mine(out, 2LL * span);
    const int warps = blockDim.x / LANES, own = FOUR * (threadIdx.x % LANES), first = blockIdx.x * ACROSS;
    Four<double> response = {}, total = {};
    if (first + own < span)
#pragma unroll 4
        for (int j = threadIdx.x / LANES; j < slots; j += warps) {
            const Four<stored> x = four(row + (long long)j * span + first + own);
            for (int v = 0; v < FOUR; v++) response.at[v] += fabs((double)x.at[v]), total.at[v] += x.at[v];
        }
    double *sums = shared + threadIdx.x / LANES * ACROSS + own;
    *(Four<double> *)sums = response, *(Four<double> *)(sums + warps * ACROSS) = total;
    __syncthreads();
    for (int across = threadIdx.x; across < ACROSS; across += blockDim.x) {
        const int t = first + across;
        if (t >= carriers) return;
        double response = 0.0, total = 0.0;
        for (int w = 0; w < warps; w++) {
            response += shared[w * ACROSS + across];
            total += shared[(warps + w) * ACROSS + across];
        }
        out[t] = response, out[span + t] = total;
    }
}

// Random starts: what `row_sums` adds up with the weight k^2, as dmft/samples/overlap_sums.py: weighted_g and bound of every
// sample, sums of its terms but for the last two, and these, ends (2, span), from those of the row.
extern "C" __global__ void __launch_bounds__(PART)
    overlap_terms(const int *on, int count, int width, int block, int parts, int columns, int span, const double *weight,
                  const long long *tangent_index, const double *k, const double *h, const double *g, const double *gp,
                  const double *bound, const double *ends, double *weighted_g_k2, double *bound_k2, double *ends_k2, double *out) {
    extern __shared__ __align__(16) double shared[];
    if (!on[blockIdx.z]) return;
    const auto [i, there] = own_sample(count, width, block, parts);
    bound = mine(bound, span), ends = mine(ends, 2LL * span);
    bound_k2 = mine(bound_k2, span), ends_k2 = mine(ends_k2, 2LL * span);
    double terms[OVERLAP_SCALARS - 2];
    for (double &term : terms) term = there ? UNFILLED : 0.0;
    if (there) {
        const double k2 = k[i] * k[i], w = weight[i] * k2;
        const long long t = tangent_index[i];
        weighted_g_k2[i] = w * g[i];
        if (t >= 0) {
            bound_k2[t] = k2 * bound[t];
            ends_k2[t] = k2 * ends[t];
            ends_k2[span + t] = square_of<double>(ends_k2[t], weight[i]);
        }
        terms[CURVATURE] = w * gp[i]; // [random-K]
        terms[SQUARE] = moment_of<double>(w, g[i], g[i]); // [random-K]
        terms[FIELD] = moment_of<double>(w, g[i], h[i]);
        terms[NOISE] = moment_of<double>(w, g[i], g[i]) * k2;
    }
    part_sums(terms, shared, own_sums(out, columns));
}

// The rest of `out`: for every slot sums of weighted_g G, bound T_n and weighted_g H over the samples of each part, OWN times four
// a lane, and the last two terms. A warp takes one slot after the other. held (slots,): the slots that hold something, then the
// others, as -1 - slot. cut (blocks + 1,): where the samples with tangents of a block begin; its parts share them out evenly. Grid
// (blocks parts, any number, solutions).
extern "C" __global__ void row_sums(const int *on, int count, int width, int span, int block, int parts, int slots, int scalars,
                                    const long long *held, const int *cut, const double *weighted_g, const double *bound,
                                    const double *ends, const double *G, const stored *row, const stored *H, double *out) {
    if (!on[blockIdx.z]) return;
    weighted_g = mine(weighted_g, width), bound = mine(bound, span), ends = mine(ends, 2LL * span);
    G = mine(G, (long long)slots * width), H = mine(H, (long long)slots * width), row = mine(row, (long long)slots * span);
    const int lane = threadIdx.x % LANES, columns = scalars + GROUPS * slots;
    const int warp = blockIdx.y * (blockDim.x / LANES) + threadIdx.x / LANES, warps = gridDim.y * (blockDim.x / LANES);
    const int b = blockIdx.x / parts, part = blockIdx.x % parts, end = min((b + 1) * block, count);
    const int first = b * block + part * PART + FOUR * lane;
    const int share = (cut[b + 1] - cut[b] + parts - 1) / parts;
    const int t_first = cut[b] + part * share, t_last = min(t_first + share, cut[b + 1]);
    Four<double> own[OWN]; // zero for samples that are not there
    int place[OWN];        // of the four samples, or of others for lanes without any
#pragma unroll
    for (int r = 0; r < OWN; r++) {
        const bool there = first + r * ACROSS < end;
        place[r] = there ? first + r * ACROSS : 0;
        own[r] = there ? four(weighted_g + place[r]) : Four<double>{};
    }
    out = own_sums(out, columns);
    for (int q = warp; q < slots; q += warps) {
        const long long slot = held[q];
        double products = 0.0, responses = 0.0, overlaps = 0.0;
        if (slot >= 0) {
            Four<double> x[OWN];
            Four<stored> y[OWN];
#pragma unroll
            for (int r = 0; r < OWN; r++) {
                x[r] = four(G + slot * width + place[r]);
                if (IDENTITY) y[r] = four(H + slot * width + place[r]);
            }
            for (int t = t_first + lane; t < t_last; t += LANES) responses += bound[t] * row[slot * span + t];
#pragma unroll
            for (int r = 0; r < OWN; r++)
#pragma unroll
                for (int v = 0; v < FOUR; v++) {
                    products += own[r].at[v] * x[r].at[v];
                    if (IDENTITY) overlaps += own[r].at[v] * y[r].at[v];
                }
        }
        const double sum = warp_sums(products, overlaps, responses);
        double *to = out + scalars + (slot < 0 ? -1 - slot : slot);
        if (lane == 0) to[0] = sum;
        if (lane == 8) to[slots] = sum;
        if (lane == 16) to[2 * slots] = sum;
    }
    if (warp != warps - 1) return;
    double response = 0.0, square = 0.0;
    for (int t = t_first + lane; t < t_last; t += LANES) response += ends[t], square += ends[span + t];
    const double sum = warp_sums(response, square, 0.0);
    if (lane == 0) out[scalars - 2] = sum;
    if (lane == 16) out[scalars - 1] = sum;
}

// A slot of the past that holds something, and how strongly step n is drawn to it.
struct Held {
    int slot;
    double memory, chi_weight;
};

// From step n to n + 1: the noise, the next field and the next Y of every sample; blocks of its past are merged, and step n goes
// into the new slot. The warps of a block of threads share out the slots of the past of ACROSS samples; their sums meet in shared
// memory, (warps, 3, ACROSS). Then each sample has two threads: one for chi and h, the other for what responds to it. Grid (samples
// / ACROSS, 1, solutions), MOVERS warps, which is two threads a sample. keys: of the noise and of mini-batches. Eqs. [dmft-chi],
// [dmft-h].
extern "C" __global__ void move(const int *on, int count, int width, int slots, const Step *step, const Rates *rates,
                                const unsigned long long *keys, const long long *batch_index,
                                const long long *noise_index, const double *sign, int z_steps, const double *z_first, int known,
                                const long long *changes, const double *g, const double *gp, const double *g_y, double *h,
                                double *s, stored *H, double *G, stored *X, double *Y, stored *Y_past) {
    extern __shared__ __align__(16) double shared[];
    if (!on[blockIdx.z]) return;
    const int warp = threadIdx.x / LANES, warps = MOVERS, own = FOUR * (threadIdx.x % LANES), across = threadIdx.x % ACROSS;
    const long long stride = width, first = (long long)blockIdx.x * ACROSS, there = first + across, slot = step->slot, n = step->n;
    const long long past_of = (long long)slots * width, i = blockIdx.z * stride + there; // in arrays with a number a sample
    const double *memory = my_memory(rates, slots), *chi_weights = memory + slots;
    rates = mine(rates, 1), keys = mine(keys, 2);
    H = mine(H, past_of), G = mine(G, past_of), X = mine(X, past_of), Y_past = mine(Y_past, STEIN ? past_of : 0);
    Held *past = (Held *)shared; // (active,) the same for all samples, and some more of no weight
    const long long *order = order_of(step), *merge = merges_of(step, slots);
    const int active = step->active, merges = step->merges;
    for (int k = threadIdx.x; k < active + AHEAD * warps; k += blockDim.x) {
        const long long slot = order[min(k, active - (active > 0))];
        past[k] = {(int)slot, k < active ? memory[slot] : 0.0, k < active ? chi_weights[slot] : 0.0};
    }
    __syncthreads();

    const long long four_of = min(first + own, stride - FOUR);
    Four<double> chi_mean = {}, memory_h = {}, memory_Y = {};
    for (int k = warp; k < active; k += AHEAD * warps) {
        Four<stored> x[AHEAD], field[AHEAD], response[AHEAD];
#pragma unroll
        for (int r = 0; r < AHEAD; r++) {
            const long long place = past[k + r * warps].slot * stride + four_of;
            x[r] = four(X + place), field[r] = four(H + place);
            if (STEIN) response[r] = four(Y_past + place);
        }
#pragma unroll
        for (int r = 0; r < AHEAD; r++) {
            const double chi_weight = past[k + r * warps].chi_weight, weight = past[k + r * warps].memory;
#pragma unroll
            for (int v = 0; v < FOUR; v++) {
                chi_mean.at[v] += chi_weight * x[r].at[v];
                memory_h.at[v] += weight * field[r].at[v];
                if (STEIN) memory_Y.at[v] += weight * response[r].at[v];
            }
        }
    }
    __syncthreads(); // nobody looks at `past` from here on
    double *sums = shared + 3 * ACROSS * warp + own;
    *(Four<double> *)sums = chi_mean, *(Four<double> *)(sums + ACROSS) = memory_h, *(Four<double> *)(sums + 2 * ACROSS) = memory_Y;
    __syncthreads();

    if (there >= count) return;
    const double eta = rates->eta, a = rates->a, keep = rates->keep;
    const auto total = [&](int which) {
        double sum = 0.0;
        for (int w = 0; w < warps; w++) sum += shared[(3 * w + which) * ACROSS + across];
        return sum;
    };
    if (threadIdx.x < ACROSS) {
        double z, xi;
        normal2(keys[0], noise_index[i], n, z, xi);
        z = n < z_steps ? z_first[i * z_steps + n] : z * sign[i];
        const double chi = total(0) + rates->chi_sd * z, field = h[i]; // [dmft-chi]
        merge_past(H + there, stride, merges, merge), merge_past(X + there, stride, merges, merge);
        H[slot * stride + there] = field, X[slot * stride + there] = chi;
        h[i] = moved_field<double>(a, keep, eta, rates->thermal, field, total(1), chi, g[i], sign[i] * xi);
        return;
    }
    merge_past(G + there, stride, merges, merge);
    G[slot * stride + there] = g[i];
    if (STEIN) {
        merge_past(Y_past + there, stride, merges, merge);
        Y_past[slot * stride + there] = Y[i];
        const double response = moved_control<double>(a, keep, eta, Y[i], total(2), gp[i], g_y[i]);
        Y[i] = clipped<double>(response, most_of_control<double>(eta, gp[i], TANGENT_MAX, Y_MAX));
    }
    const double weight = s[i];
    if (weight < 0.0) return;
    const double next =
        own_weight<double>({step->kind, rates->fraction, rates->p_on, rates->p_off, step->period, step->epochs_from}, weight,
                           keys[1], batch_index[i], n, known, changes + i * known);
    if (next != weight) s[i] = next;
}

static_assert(sizeof(Held) <= HELD_BYTES, "gpu.py asks for too little shared memory");

// A row of the tangents that is in use: where it begins, and the memory of step n there.
struct HeldRow {
    int offset;
    stored memory;
};
static_assert(sizeof(HeldRow) <= HELD_BYTES, "gpu.py asks for too little shared memory");

// next (slots, span): the next row of tangents of every sample that has them, by one pass over T. One block of threads a
// slot as source, four samples a thread. Where few samples have tangents, the warps of a block, ROW_SHARES of them, share
// out the rows of the same ones, and their sums meet in shared memory, (ROW_SHARES, ACROSS). Grid (fours of samples,
// slots, solutions). Eq. [dmft-T].
extern "C" __global__ void next_tangents(const int *on, int carriers, int width, int span, int slots, int packed, const Step *step,
                                         const Rates *rates, const int *offset, const long long *carrier, const double *gp,
                                         const stored *T, const stored *row, stored *next) {
    extern __shared__ __align__(16) double shared[];
    if (!on[blockIdx.z]) return;
    const double *memory = my_memory(rates, slots);
    rates = mine(rates, 1), gp = mine(gp, width), T = mine(T, (long long)packed * span);
    row = mine(row, (long long)slots * span), next = mine(next, (long long)slots * span);
    // The same for all samples: rows from the source on, in order of time, and some more of no weight.
    HeldRow *held = (HeldRow *)shared;
    const long long *order = order_of(step);
    const int source = blockIdx.y, rows = (int)step->active - source;
    if (rows <= 0) return; // other slots respond to nothing
    for (int k = threadIdx.x; k < rows + ROWS_AHEAD * ROW_SHARES; k += blockDim.x) {
        const long long slot = order[source + min(k, rows - 1)];
        held[k] = {offset[slot], k < rows ? (stored)flushed<double>((stored)memory[slot], TANGENT_FLUSH) : stored(0)};
    }
    __syncthreads();

    const double eta = rates->eta, a = rates->a;
    const int lane = threadIdx.x % LANES, share = threadIdx.x / LANES % ROW_SHARES, warp = threadIdx.x / LANES / ROW_SHARES;
    const long long stride = span, t = (((long long)blockIdx.x * (blockDim.x / LANES / ROW_SHARES) + warp) * LANES + lane) * FOUR;
    const long long j = order[source];
    if (ROW_SHARES == 1 && t >= carriers) return;
    T += j * stride + min(t, stride - FOUR);
    Four<stored> sum = {};
    for (int k = share; k < rows; k += ROWS_AHEAD * ROW_SHARES) {
        Four<stored> loaded[ROWS_AHEAD];
#pragma unroll
        for (int r = 0; r < ROWS_AHEAD; r++) loaded[r] = four(T + held[k + r * ROW_SHARES].offset * stride);
#pragma unroll
        for (int r = 0; r < ROWS_AHEAD; r++)
#pragma unroll
            for (int v = 0; v < FOUR; v++) sum.at[v] += held[k + r * ROW_SHARES].memory * loaded[r].at[v];
    }
    if (ROW_SHARES > 1) {
        Four<stored> *sums = (Four<stored> *)shared + lane;
        __syncthreads(); // nobody looks at `held` from here on
        sums[share * LANES] = sum;
        __syncthreads();
        if (share > 0 || t >= carriers) return;
        for (int s = 1; s < ROW_SHARES; s++) sum = sum + sums[s * LANES];
    }
    const Four<stored> now = four(row + j * stride + t);
    Four<stored> then = {};
#pragma unroll
    for (int v = 0; v < FOUR; v++) {
        if (t + v >= carriers) continue;
        const double curvature = gp[carrier[t + v]];
        const stored slope = tangent_slope<double>(a, rates->keep, eta, curvature), strength = a * eta;
        const stored response = flushed<double>((stored)(slope * now.at[v] + strength * sum.at[v]), TANGENT_FLUSH);
        then.at[v] = overshoots<double>(eta, curvature) ? clipped<stored>(response, TANGENT_MAX) : response;
    }
    *(Four<stored> *)(next + j * stride + t) = then;
}

// Blocks of the history that become one, as columns: of every row of the tangents, of the present one and of the next. Grid
// (fours of samples, slots + 2, solutions). All merges of columns may come before those of rows: both are sums, and a row has
// no column newer than its level.
extern "C" __global__ void merge_columns(const int *on, int span, int slots, int packed, const Step *step, const int *offset,
                                         const int *stop, stored *T, stored *row, stored *next) {
    if (!on[blockIdx.z]) return;
    T = mine(T, (long long)packed * span), row = mine(row, (long long)slots * span), next = mine(next, (long long)slots * span);
    const long long *merge = merges_of(step, slots);
    const long long t = (long long)blockIdx.x * blockDim.x + threadIdx.x, stride = span / FOUR;
    const int r = blockIdx.y, merges = step->merges;
    if (t >= stride) return;
    Four<stored> *column = (Four<stored> *)(r < slots ? T + offset[r] * (long long)span : r == slots ? row : next) + t;
    for (int k = 0; k < merges; k++) {
        const long long older = merge[3 * k], newer = merge[3 * k + 1], into = merge[3 * k + 2];
        if (r < slots && stop[r] <= max(older, newer)) continue;
        const Four<stored> moved = column[older * stride];
        column[into * stride] = newer == NONE ? moved : moved + column[newer * stride];
        column[older * stride] = {}; // rows to come respond to nothing there
        if (newer != NONE) column[newer * stride] = {};
    }
}

// The same for rows of the tangents; rows that were merged keep what they had, which nobody reads. Then row n goes into the new
// slot, and the next one responds to step n. Grid (fours of samples, any number, solutions).
extern "C" __global__ void merge_rows(const int *on, int carriers, int width, int span, int slots, int packed, const Step *step,
                                      const Rates *rates, const int *offset, const int *stop, const long long *carrier,
                                      const double *gp, stored *T, const stored *row, stored *next) {
    if (!on[blockIdx.z]) return;
    rates = mine(rates, 1), gp = mine(gp, width), T = mine(T, (long long)packed * span);
    row = mine(row, (long long)slots * span), next = mine(next, (long long)slots * span);
    const long long t = (long long)blockIdx.x * blockDim.x + threadIdx.x, stride = span / FOUR, slot = step->slot;
    const long long *merge = merges_of(step, slots);
    const int merges = step->merges, used = step->used;
    if (t >= stride) return;
    Four<stored> *rows = (Four<stored> *)T + t;
    for (int j = blockIdx.y; j < used; j += gridDim.y) {
        for (int k = 0; k < merges; k++) {
            const long long older = merge[3 * k], newer = merge[3 * k + 1], into = merge[3 * k + 2];
            if (j >= stop[into]) continue;
            const Four<stored> moved = rows[(offset[older] + j) * stride];
            rows[(offset[into] + j) * stride] = newer == NONE ? moved : moved + rows[(offset[newer] + j) * stride];
        }
        rows[(offset[slot] + j) * stride] = ((const Four<stored> *)row + t)[j * stride];
        if (j != slot) continue;
        for (int i = FOUR * t; i < min(FOUR * (int)t + FOUR, carriers); i++)
            next[slot * span + i] = tangent_source<double>(rates->a, rates->eta, gp[carrier[i]]);
    }
}
