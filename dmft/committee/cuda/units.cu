// Samples of the effective process of a network on a GPU: what dmft/committee/samples.py, tangents.py and control.py do on a CPU,
// names and equations as there.
//
// dmft/committee/gpu.py puts before this file: philox.cuh and lanes.cuh, the mini-batch laws, the functions of the loss, of the
// activation, of observables and of formulas.py, translated from Python, the structs Present, Rates (of that file) and Step,
// dmft/samples/cuda/common.cuh, the type `stored` of tangents and of the past, where sums stand in a line (AT_GP .. AT_WILD,
// SAMPLE_NUMBERS, of rows.SumPlaces), NONE, UNUSED and the bounds of tangents of the Python sources, and
//   UNITS, DIRECTIONS  p and k
//   KINKED             1: the activation has no second derivative
//   STEIN, IDENTITY    whether these estimators are used
//   LANES, SOME        threads of a warp; neighbouring samples that a thread loads at once
//   ACROSS             samples of a warp, LANES x SOME
//   OWN                of which a thread sums up so many
//   AHEAD, ROWS_AHEAD  slots of the past, rows of the tangents, that a thread loads before it uses them
//   MOVERS             warps of a block of threads of `move` and `control`
//
// Arrays have the sample as their last index, as in march.cu: h, g, d, bend (p, width), kappa (k, width), H, G, X (slots p, width),
// Y (k, p, width), Y_past (k, slots p, width); of samples with tangents row (p, slots, span), E (p, span), and T (packed p, span),
// where the p rows of slot I begin at offset[I] p and have stop[I] entries each. A number of the past is read once for all units.

template <typename real> struct __align__(sizeof(real) * SOME < 16 ? sizeof(real) * SOME : 16) Some {
    real at[SOME];
};
template <typename real> __device__ inline Some<real> some(const real *from) { return *(const Some<real> *)from; }
template <typename real> __device__ inline Some<real> operator+(Some<real> one, const Some<real> &other) {
    for (int v = 0; v < SOME; v++) one.at[v] += other.at[v];
    return one;
}

// How strongly the units are drawn to an entry of the past.
struct __align__(UNITS % 2 ? 8 : 16) Line {
    double at[UNITS];
};

// Memory and chi_weights, (slots p) lines each, lie behind the rates of a step.
__device__ inline const Line *memory_of(const Rates *rates) { return (const Line *)(rates + 1); }
__device__ inline const Line *chi_weights_of(const Rates *rates, int slots) { return memory_of(rates) + slots * UNITS; }

// A u of every unit and sample of a block of threads, after the step is known: u (UNITS, ACROSS) in shared memory, all of it there;
// enter(r, i, (A u)_r) takes it for sample i.
template <typename Enter>
__device__ inline void rescaled(const Rates *rates, const double *u, long long first, int count, Enter enter) {
    for (int item = threadIdx.x; item < UNITS * ACROSS; item += blockDim.x) {
        const int r = item / ACROSS, across = item % ACROSS;
        if (first + across >= count) continue;
        double next = 0.0;
        for (int q = 0; q < UNITS; q++) next += rates->A[r][q] * u[q * ACROSS + across]; // [c-h]
        enter(r, first + across, next);
    }
}

// The loss of every sample, [c-model]: g = (s/l) dv/dh, and g' = curve d d^T + diag(bend); mixed = (s/l) dl'/dy;
// weighted_g = weight g, with which it counts in sums over the past; and sums of numbers of a sample but for those of
// the response (`response_sums`).
extern "C" __global__ void __launch_bounds__(PART)
    fields(int count, int block, int parts, int columns, int width, const Present *present, const double *weight,
           const long long *tangent_index, const double *kappa, const double *y, const double *slope, const double *h,
           const double *s, const double *Y, double *g, double *d, double *curve, double *bend, double *mixed, double *weighted_g,
           double *out) {
    extern __shared__ __align__(16) double shared[];
    const auto [i, there] = own_sample(count, 0, block, parts);
    double w = 0.0, loss = 0.0, bent = 0.0, taught = 0.0, own_g[UNITS] = {}, own_d[UNITS] = {}, own_bend[UNITS] = {};
    double own_h[UNITS] = {}, push[UNITS] = {}, own_kappa[DIRECTIONS] = {};
    if (there) {
        w = weight[i];
        for (int t = 0; t < DIRECTIONS; t++) own_kappa[t] = kappa[t * width + i];
        double f = 0.0;
#pragma unroll
        for (int r = 0; r < UNITS; r++) {
            own_h[r] = h[r * width + i];
            const double field = unit_field<double>(own_h[r], present->beta[r], present->m[r], own_kappa);
            push[r] = activation_s<double>(field);
            f += present->a[r] * push[r]; // [c-model]
            own_d[r] = present->a[r] * activation_ds<double>(field); // [c-model]
            own_bend[r] = KINKED ? 0.0 : present->a[r] * activation_d2s<double>(field); // [c-model]
        }
        const double batch = batch_of<double>(present->scale, s[i], 1.0), c = batch * loss_dv<double>(f, y[i]); // [c-model]
        loss = loss_v<double>(f, y[i]);
        bent = KINKED ? 0.0 : batch * loss_d2v<double>(f, y[i]); // [c-model]
        taught = batch * loss_dv_dy<double>(f, y[i]);
        curve[i] = bent, mixed[i] = taught;
#pragma unroll
        for (int r = 0; r < UNITS; r++) {
            own_g[r] = c * own_d[r], own_bend[r] *= c, push[r] *= c;
            g[r * width + i] = own_g[r], d[r * width + i] = own_d[r], bend[r * width + i] = own_bend[r];
            weighted_g[r * width + i] = w * own_g[r];
        }
    }
    double *sums = shared + threadIdx.x / LANES * SAMPLE_NUMBERS;
    const auto to = [&](int place) { return [=](int index, double sum) { sums[place + index] = sum; }; };
    double terms[UNITS * UNITS];
#pragma unroll
    for (int e = 0; e < UNITS * UNITS; e++) {
        const int r = e / UNITS, q = e % UNITS;
        terms[e] = w * (bent * own_d[r] * own_d[q] + (r == q ? own_bend[r] : 0.0));
    }
    lane_sums(terms, to(AT_GP)); // [c-nu]
#pragma unroll
    for (int e = 0; e < UNITS * UNITS; e++) terms[e] = w * own_g[e / UNITS] * own_h[e % UNITS];
    lane_sums(terms, to(AT_GH)); // [c-ibp]
#pragma unroll
    for (int e = 0; e < UNITS * UNITS; e++) terms[e] = w * own_g[e / UNITS] * own_g[e % UNITS];
    lane_sums(terms, to(AT_GG)); // [c-MC]
    double along_kappa[UNITS * DIRECTIONS], labels[UNITS * DIRECTIONS] = {}, largest = 0.0;
#pragma unroll
    for (int e = 0; e < UNITS * DIRECTIONS; e++) along_kappa[e] = w * own_g[e / DIRECTIONS] * own_kappa[e % DIRECTIONS];
    lane_sums(along_kappa, to(AT_GK)); // [c-mu]
    if (STEIN && there)
        for (int t = 0; t < DIRECTIONS; t++) {
            double along = taught * slope[t * width + i];
            for (int r = 0; r < UNITS; r++) {
                const double response = Y[(t * UNITS + r) * width + i];
                along += bent * own_d[r] * response;
                largest = max(largest, fabs(response));
            }
            for (int r = 0; r < UNITS; r++)
                labels[r * DIRECTIONS + t] = w * curved<double>(along, own_d[r], own_bend[r], Y[(t * UNITS + r) * width + i]);
        }
    lane_sums(labels, to(AT_LABEL)); // [c-stein]
    double single[2 * UNITS];
#pragma unroll
    for (int r = 0; r < UNITS; r++) single[r] = w * push[r], single[UNITS + r] = w * own_g[r];
    lane_sums(single, [=](int index, double sum) { sums[index < UNITS ? AT_PUSH + index : AT_G + index - UNITS] = sum; });
    const double others[3] = {w * loss, there && tangent_index[i] >= 0 ? w : 0.0, largest > Y_OUTLIER ? w : 0.0};
    lane_sums(others, [=](int index, double sum) { sums[index == 0 ? AT_V : index == 1 ? AT_CARRIED : AT_WILD] = sum; });
    __syncthreads();
    out += (long long)blockIdx.x * columns;
    for (int c = threadIdx.x; c < SAMPLE_NUMBERS; c += blockDim.x) {
        if (c >= AT_RESPONSE && c < AT_RESPONSE + UNITS * UNITS || c == AT_RESPONSE2) continue;
        double sum = 0.0;
        for (int warp = 0; warp < PART / LANES; warp++) sum += shared[warp * SAMPLE_NUMBERS + c];
        out[c] = sum;
    }
}

#ifdef AVERAGES
// Sums of the values of a sample that observables average, at the output of the network; lost samples count with 0, as in the loss.
extern "C" __global__ void __launch_bounds__(PART)
    averages(int count, int block, int parts, int columns, int width, const Present *present, const double *weight,
             const double *kappa, const double *y, const double *h, const double *s, double *out) {
    extern __shared__ __align__(16) double shared[];
    const auto [i, there] = own_sample(count, 0, block, parts);
    double terms[AVERAGES] = {}, own_kappa[DIRECTIONS] = {}, f = 0.0;
    if (there && s[i] >= 0.0) {
        for (int t = 0; t < DIRECTIONS; t++) own_kappa[t] = kappa[t * width + i];
        for (int r = 0; r < UNITS; r++)
            f += present->a[r] * activation_s<double>(
                                     unit_field<double>(h[r * width + i], present->beta[r], present->m[r], own_kappa));
        average_values(f, y[i], own_kappa[0], terms);
        for (double &term : terms) term *= weight[i];
    }
    double *sums = shared + threadIdx.x / LANES * AVERAGES;
    lane_sums(terms, [=](int index, double sum) { sums[index] = sum; });
    __syncthreads();
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
        double sum = 0.0;
        for (int warp = 0; warp < PART / LANES; warp++) sum += shared[warp * AVERAGES + c];
        out[(long long)blockIdx.x * columns + c] = sum;
    }
}
#endif

// For every slot sums of weighted_g_r G_q and weighted_g_r H_q over the samples of each part. A warp takes one unit q of a slot
// after the other. held (slots,): the slots that hold something, those that did, as -1 - slot, then UNUSED, whose sums stay zero.
// Grid (blocks parts, any number). Eqs. [c-MC], [c-ibp].
extern "C" __global__ void row_sums(int count, int width, int block, int parts, int columns, int slots, const long long *held,
                                    const double *weighted_g, const double *G, const stored *H, double *out) {
    const int lane = threadIdx.x % LANES;
    const int warp = blockIdx.y * (blockDim.x / LANES) + threadIdx.x / LANES, warps = gridDim.y * (blockDim.x / LANES);
    const int b = blockIdx.x / parts, end = min((b + 1) * block, count);
    const int first = b * block + blockIdx.x % parts * PART + SOME * lane;
    Some<double> own[UNITS][OWN]; // zero for samples that are not there
    int place[OWN];               // of these samples, or of others for lanes without any
#pragma unroll
    for (int o = 0; o < OWN; o++) {
        const bool there = first + o * ACROSS < end;
        place[o] = there ? first + o * ACROSS : 0;
#pragma unroll
        for (int r = 0; r < UNITS; r++) own[r][o] = there ? some(weighted_g + (long long)r * width + place[o]) : Some<double>{};
    }
    out += (long long)blockIdx.x * columns + SAMPLE_NUMBERS;
    const long long group = (long long)UNITS * slots * UNITS; // numbers of M_C, of the response, of the overlaps
    for (int entry = warp; entry < slots * UNITS; entry += warps) {
        const long long holds = held[entry / UNITS], slot = holds < 0 ? -1 - holds : holds;
        if (holds == UNUSED) break;
        const int q = entry % UNITS;
        double sums[2 * UNITS] = {};
        if (holds >= 0) {
            const long long from = (slot * UNITS + q) * width;
            Some<double> x[OWN];
            Some<stored> y[OWN];
#pragma unroll
            for (int o = 0; o < OWN; o++) {
                x[o] = some(G + from + place[o]);
                if (IDENTITY) y[o] = some(H + from + place[o]);
            }
#pragma unroll
            for (int o = 0; o < OWN; o++)
#pragma unroll
                for (int v = 0; v < SOME; v++)
#pragma unroll
                    for (int r = 0; r < UNITS; r++) {
                        sums[r] += own[r][o].at[v] * x[o].at[v];
                        if (IDENTITY) sums[UNITS + r] += own[r][o].at[v] * y[o].at[v];
                    }
        }
        lane_sums(sums, [=](int index, double sum) {
            const int r = index % UNITS;
            out[(index < UNITS ? 0 : 2 * group) + (r * slots + slot) * UNITS + q] = sum;
        });
    }
}

// Of every sample with tangents: with how much of its weight its response counts, where [c-ibp] completes it less than all; levers
// (3 p, span), with which it makes the response of a row, d, weight curve d and weight bend; and ends (p p + 1, span): its g'_n
// sum_j T_nj E^T, times this weight, and the square of that. The warps of a block of threads share out units and slots of ACROSS
// samples; their sums meet in shared memory, (2, warps, ACROSS). blockDim: a multiple of p warps. Eqs. [c-MR], [c-probe].
extern "C" __global__ void bounds(int carriers, int width, int span, int slots, const long long *held, const long long *carrier,
                                  const double *weight, const double *d, const double *curve, const double *bend, const stored *row,
                                  const double *E, double *levers, double *ends) {
    extern __shared__ __align__(16) double shared[];
    const int warp = threadIdx.x / LANES, warps = blockDim.x / LANES, shares = warps / UNITS;
    const int mine = SOME * (threadIdx.x % LANES), first = blockIdx.x * ACROSS, unit = warp % UNITS;
    Some<double> size = {}, total = {};
    if (first + mine < span)
        for (int k = warp / UNITS; k < slots && held[k] >= 0; k += shares) {
            const Some<stored> x = some(row + (unit * slots + held[k]) * span + first + mine);
            for (int v = 0; v < SOME; v++) size.at[v] += fabs((double)x.at[v]), total.at[v] += x.at[v];
        }
    *(Some<double> *)(shared + warp * ACROSS + mine) = size, *(Some<double> *)(shared + (warps + warp) * ACROSS + mine) = total;
    __syncthreads();
    for (int across = threadIdx.x; across < ACROSS && first + across < carriers; across += blockDim.x) {
        const int t = first + across;
        const long long i = carrier[t];
        double sum[UNITS] = {}, absolute = 0.0, along = 0.0, square = 0.0;
        for (int other = 0; other < warps; other++) {
            absolute += shared[other * ACROSS + across];
            sum[other % UNITS] += shared[(warps + other) * ACROSS + across];
        }
        absolute /= UNITS;
        const double w = weight[i] * (IDENTITY ? share_of<double>(absolute, TANGENT_SUM_MAX) : 1.0);
        for (int r = 0; r < UNITS; r++) along += d[r * width + i] * sum[r];
        for (int r = 0; r < UNITS; r++) {
            const double own_d = d[r * width + i], lever = w * curve[i] * own_d, stiff = w * bend[r * width + i];
            levers[(long long)r * span + t] = own_d, levers[(UNITS + (long long)r) * span + t] = lever;
            levers[(2 * UNITS + (long long)r) * span + t] = stiff;
            for (int q = 0; q < UNITS; q++) {
                const double response = curved<double>(along, lever, stiff, sum[r]) * E[q * span + t];
                ends[(r * UNITS + q) * (long long)span + t] = response;
                square += square_of<double>(response, weight[i]);
            }
        }
        ends[UNITS * UNITS * (long long)span + t] = square;
    }
}

// Sums of g'_n T_nj E^T over the samples with tangents of each part, for every slot, and of their ends. cut (blocks + 1,): where
// those of a block begin; its parts share them out evenly. Grid (blocks parts, any number). Eq. [c-MR].
extern "C" __global__ void response_sums(int span, int parts, int columns, int slots, const long long *held, const int *cut,
                                         const double *levers, const double *ends, const stored *row, const double *E,
                                         double *out) {
    const int lane = threadIdx.x % LANES;
    const int warp = blockIdx.y * (blockDim.x / LANES) + threadIdx.x / LANES, warps = gridDim.y * (blockDim.x / LANES);
    const int b = blockIdx.x / parts, share = (cut[b + 1] - cut[b] + parts - 1) / parts;
    const int t_first = cut[b] + blockIdx.x % parts * share, t_last = min(t_first + share, cut[b + 1]);
    const long long apart = span;
    out += (long long)blockIdx.x * columns;
    double *group = out + SAMPLE_NUMBERS + UNITS * slots * UNITS;
    for (int k = warp; k < slots; k += warps) {
        const long long holds = held[k], slot = holds < 0 ? -1 - holds : holds;
        if (holds == UNUSED) break;
        double sums[UNITS * UNITS] = {};
        if (holds >= 0)
            for (int t = t_first + lane; t < t_last; t += LANES) {
                double x[UNITS], along = 0.0;
#pragma unroll
                for (int r = 0; r < UNITS; r++) x[r] = row[(r * slots + slot) * apart + t], along += levers[r * apart + t] * x[r];
#pragma unroll
                for (int r = 0; r < UNITS; r++) {
                    const double lever = levers[(UNITS + r) * apart + t], stiff = levers[(2 * UNITS + r) * apart + t];
                    const double response = curved<double>(along, lever, stiff, x[r]);
#pragma unroll
                    for (int q = 0; q < UNITS; q++) sums[r * UNITS + q] += response * E[q * apart + t]; // [c-MR], [c-probe]
                }
            }
        lane_sums(sums, [=](int e, double sum) { group[(e / UNITS * slots + slot) * UNITS + e % UNITS] = sum; });
    }
    if (warp != warps - 1) return;
    double sums[UNITS * UNITS + 1] = {};
    for (int t = t_first + lane; t < t_last; t += LANES)
#pragma unroll
        for (int e = 0; e <= UNITS * UNITS; e++) sums[e] += ends[e * apart + t];
    lane_sums(sums, [=](int e, double sum) { out[e < UNITS * UNITS ? AT_RESPONSE + e : AT_RESPONSE2] = sum; });
}

// sums[r] = sum over the slots k = warp, warp + warps, .. of those that hold something, and over their units q, of
// weights[(slot, q)][r] past[(slot, q)], for SOME samples, the first of which past points at.
__device__ inline void gather(const stored *past, long long stride, const Line *weights, const long long *order, int active,
                              int warp, int warps, Some<double> (&sums)[UNITS]) {
#pragma unroll
    for (int r = 0; r < UNITS; r++) sums[r] = {};
    for (int k = warp; k < active; k += AHEAD * warps) {
        Some<stored> x[AHEAD][UNITS];
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
#pragma unroll
            for (int q = 0; q < UNITS; q++) x[a][q] = some(past + (order[min(k + a * warps, active - 1)] * UNITS + q) * stride);
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (k + a * warps >= active) continue;
            const Line *weight = weights + order[k + a * warps] * UNITS;
#pragma unroll
            for (int q = 0; q < UNITS; q++) {
                const Line by_unit = weight[q];
#pragma unroll
                for (int r = 0; r < UNITS; r++)
#pragma unroll
                    for (int v = 0; v < SOME; v++) sums[r].at[v] += by_unit.at[r] * x[a][q].at[v];
            }
        }
    }
}

// The sum over the warps of a block of threads, in order, of what each wrote down for line `which` of `lines`,
// (warps, lines, ACROSS).
__device__ inline double met(const double *sums, int lines, int which, int across) {
    double sum = 0.0;
    for (int warp = 0; warp < MOVERS; warp++) sum += sums[(warp * lines + which) * ACROSS + across];
    return sum;
}

// From step n to n + 1: the noise and the next fields of every sample; blocks of its past are merged, and step n goes
// into the new slot. The warps of a block of threads share out the slots of the past of ACROSS samples; then its threads
// share out samples and units. Shared memory: (MOVERS, 2 p, ACROSS) sums, and z, heat and u, (3, p, ACROSS). Grid
// (samples / ACROSS). Eqs. [c-h], [c-chi].
extern "C" __global__ void __launch_bounds__(LANES *MOVERS)
    move(int count, int width, int slots, const Step *step, const Rates *rates, unsigned long long noise_key,
         unsigned long long batch_key, const long long *batch_index, const long long *noise_index, const double *sign, int normals,
         const double *z_first, int known, const long long *changes, const double *g, double *h, double *s, stored *H, double *G,
         stored *X) {
    extern __shared__ __align__(16) double shared[];
    const int warp = threadIdx.x / LANES, mine = SOME * (threadIdx.x % LANES), active = step->active, merges = step->merges;
    const long long stride = width, first = (long long)blockIdx.x * ACROSS, slot = step->slot, n = step->n;
    const long long from = min(first + mine, stride - SOME), *merge = merges_of(step, slots);
    double *z = shared + MOVERS * 2 * UNITS * ACROSS, *heat = z + UNITS * ACROSS, *u = heat + UNITS * ACROSS;
    Some<double> sums[UNITS];
    gather(X + from, stride, chi_weights_of(rates, slots), order_of(step), active, warp, MOVERS, sums);
#pragma unroll
    for (int r = 0; r < UNITS; r++) *(Some<double> *)(shared + (warp * 2 * UNITS + r) * ACROSS + mine) = sums[r];
    gather(H + from, stride, memory_of(rates), order_of(step), active, warp, MOVERS, sums);
#pragma unroll
    for (int r = 0; r < UNITS; r++) *(Some<double> *)(shared + ((warp * 2 + 1) * UNITS + r) * ACROSS + mine) = sums[r];
    for (int item = threadIdx.x; item < UNITS * ACROSS; item += blockDim.x) {
        const long long i = first + item % ACROSS, number = n * UNITS + item / ACROSS;
        if (i >= count) continue;
        normal2(noise_key, noise_index[i], number, z[item], heat[item]);
        z[item] = number < normals ? z_first[i * normals + number] : sign[i] * z[item];
        heat[item] *= sign[i];
    }
    __syncthreads();
    for (int item = threadIdx.x; item < UNITS * ACROSS; item += blockDim.x) {
        const int r = item / ACROSS, across = item % ACROSS;
        const long long i = first + across, place = r * stride + i;
        if (i >= count) continue;
        double chi = met(shared, 2 * UNITS, r, across);
        for (int q = 0; q <= r; q++) chi += rates->chi_root[r][q] * z[q * ACROSS + across]; // [c-chi]
        const double memory = met(shared, 2 * UNITS, UNITS + r, across);
        double next = pushed_field<double>(rates->eta, memory, chi, g[place], rates->thermal, heat[item]); // [c-h]
        for (int q = 0; q < UNITS; q++) next += rates->keep[r][q] * h[q * stride + i];
        u[item] = next;
        merge_past(H + place, stride * UNITS, merges, merge);
        merge_past(G + place, stride * UNITS, merges, merge);
        merge_past(X + place, stride * UNITS, merges, merge);
        const long long to = slot * UNITS * stride + place;
        H[to] = h[place], G[to] = g[place], X[to] = chi;
    }
    __syncthreads();
    rescaled(rates, u, first, count, [&](int r, long long i, double next) {
        h[r * stride + i] = next;
        if (r == 0)
            s[i] = own_weight<double>({step->kind, rates->fraction, rates->p_on, rates->p_off, step->period, step->epochs_from},
                                      s[i], batch_key, batch_index[i], n, known, changes + i * known);
    });
}
