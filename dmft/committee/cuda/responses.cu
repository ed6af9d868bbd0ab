// What responds in the samples of a network, after units.cu: their tangents, and the control variate of mu. Eqs. [c-T], [c-stein].

// Y, (k, p) a sample, from step n to n + 1; blocks of its past are merged, and Y of step n goes into the new slot. As `move`, for
// one direction. Shared memory: (MOVERS, p, ACROSS) sums, and room (p, ACROSS). Grid (samples / ACROSS, directions). Eq. [c-stein].
extern "C" __global__ void __launch_bounds__(LANES *MOVERS)
    control(int count, int width, int slots, const Step *step, const Rates *rates, const double *d, const double *curve,
            const double *bend, const double *mixed, const double *slope, double *Y, stored *Y_past) {
    extern __shared__ __align__(16) double shared[];
    const int warp = threadIdx.x / LANES, mine = SOME * (threadIdx.x % LANES), merges = step->merges;
    const long long stride = width, first = (long long)blockIdx.x * ACROSS, slot = step->slot, *merge = merges_of(step, slots);
    double *u = shared + MOVERS * UNITS * ACROSS;
    Y += blockIdx.y * UNITS * stride, Y_past += (long long)blockIdx.y * slots * UNITS * stride, slope += blockIdx.y * stride;
    Some<double> sums[UNITS];
    gather(Y_past + min(first + mine, stride - SOME), stride, memory_of(rates), order_of(step),
           (int)step->active, warp, MOVERS, sums);
#pragma unroll
    for (int r = 0; r < UNITS; r++) *(Some<double> *)(shared + (warp * UNITS + r) * ACROSS + mine) = sums[r];
    __syncthreads();
    for (int item = threadIdx.x; item < UNITS * ACROSS; item += blockDim.x) {
        const int r = item / ACROSS, across = item % ACROSS;
        const long long i = first + across, place = r * stride + i;
        if (i >= count) continue;
        double along = mixed[i] * slope[i];
        for (int q = 0; q < UNITS; q++) along += curve[i] * d[q * stride + i] * Y[q * stride + i];
        double next = pushed_control<double>(rates->eta, met(shared, UNITS, r, across), along, d[place], bend[place], Y[place]);
        for (int q = 0; q < UNITS; q++) next += rates->keep[r][q] * Y[q * stride + i];
        u[item] = next;
        merge_past(Y_past + place, stride * UNITS, merges, merge);
        Y_past[slot * UNITS * stride + place] = Y[place];
    }
    __syncthreads();
    rescaled(rates, u, first, count, [&](int r, long long i, double next) {
        const double stiff = stiffness<double>(curve[i], d + i, bend + i, stride);
        Y[r * stride + i] = clipped<double>(next, most_of_control<double>(rates->eta, stiff, TANGENT_MAX, Y_MAX));
    });
}

// next (p, slots, span): the next row of tangents of every sample that has them, by one pass over T. One block of threads a slot as
// source, SOME samples a thread. Grid (samples, slots). Eq. [c-T].
extern "C" __global__ void next_tangents(int carriers, int width, int span, int slots, const Step *step, const Rates *rates,
                                         const int *offset, const int *stop, const long long *carrier, const double *d,
                                         const double *curve, const double *bend, const stored *T, const stored *row,
                                         stored *next) {
    const long long *order = order_of(step), apart = span;
    const Line *memory = memory_of(rates);
    const int source = blockIdx.y, rows = (int)step->active - source;
    const long long t = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * SOME;
    if (rows <= 0 || t >= carriers) return; // other slots respond to nothing
    const long long j = order[source];
    Some<stored> sums[UNITS] = {};
    for (int k = 0; k < rows; k += ROWS_AHEAD) {
        Some<stored> x[ROWS_AHEAD][UNITS];
#pragma unroll
        for (int a = 0; a < ROWS_AHEAD; a++) {
            const long long slot = order[source + min(k + a, rows - 1)], begin = offset[slot] * UNITS + j;
#pragma unroll
            for (int q = 0; q < UNITS; q++) x[a][q] = some(T + (begin + q * stop[slot]) * apart + t);
        }
#pragma unroll
        for (int a = 0; a < ROWS_AHEAD; a++) {
            if (k + a >= rows) continue;
            const Line *weight = memory + order[source + k + a] * UNITS;
#pragma unroll
            for (int q = 0; q < UNITS; q++) {
                const Line by_unit = weight[q];
#pragma unroll
                for (int r = 0; r < UNITS; r++)
#pragma unroll
                    for (int v = 0; v < SOME; v++) sums[r].at[v] += stored(by_unit.at[r]) * x[a][q].at[v];
            }
        }
    }
    Some<stored> now[UNITS], then[UNITS] = {};
#pragma unroll
    for (int r = 0; r < UNITS; r++) now[r] = some(row + (r * slots + j) * apart + t);
#pragma unroll
    for (int v = 0; v < SOME; v++) {
        if (t + v >= carriers) continue;
        const long long i = carrier[t + v];
        double along = 0.0, u[UNITS];
        for (int r = 0; r < UNITS; r++) along += d[r * width + i] * now[r].at[v];
#pragma unroll
        for (int r = 0; r < UNITS; r++) {
            const double response = curved<double>(curve[i] * along, d[r * width + i], bend[r * width + i], now[r].at[v]);
            u[r] = pushed_tangent<double>(rates->eta, sums[r].at[v], response);
            for (int q = 0; q < UNITS; q++) u[r] += rates->keep[r][q] * now[q].at[v];
        }
        const bool wild = overshoots<double>(rates->eta, stiffness<double>(curve[i], d + i, bend + i, width));
#pragma unroll
        for (int r = 0; r < UNITS; r++) {
            double response = 0.0;
            for (int q = 0; q < UNITS; q++) response += rates->A[r][q] * u[q];
            response = flushed<double>(response, TANGENT_FLUSH);
            then[r].at[v] = wild ? clipped<double>(response, TANGENT_MAX) : response;
        }
    }
#pragma unroll
    for (int r = 0; r < UNITS; r++) *(Some<stored> *)(next + (r * slots + j) * apart + t) = then[r];
}

// Blocks of the history that become one, as columns: of every row of the tangents, of the present p and of the next. Grid (samples,
// (slots + 2) p).
extern "C" __global__ void merge_columns(int span, int slots, const Step *step, const int *offset, const int *stop, stored *T,
                                         stored *row, stored *next) {
    const long long *merge = merges_of(step, slots), t = (long long)blockIdx.x * blockDim.x + threadIdx.x, stride = span / SOME;
    const int slot = blockIdx.y / UNITS, unit = blockIdx.y % UNITS, merges = step->merges;
    if (t >= stride) return;
    const bool past = slot < slots;
    stored *from = past ? T + (offset[slot] * UNITS + unit * stop[slot]) * (long long)span
                        : (slot == slots ? row : next) + (long long)unit * slots * span;
    Some<stored> *column = (Some<stored> *)from + t;
    for (int k = 0; k < merges; k++) {
        const long long older = merge[3 * k], newer = merge[3 * k + 1], into = merge[3 * k + 2];
        if (past && stop[slot] <= max(older, newer)) continue;
        const Some<stored> moved = column[older * stride];
        column[into * stride] = newer == NONE ? moved : moved + column[newer * stride];
        column[older * stride] = {}; // rows to come respond to nothing there
        if (newer != NONE) column[newer * stride] = {};
    }
}

// The same for rows of the tangents; rows that were merged keep what they had, which nobody reads. Then row n goes into the new
// slot, and the next one responds to step n: -eta A g' E. Grid (samples, any number). Eq. [c-T].
extern "C" __global__ void merge_rows(int carriers, int width, int span, int slots, const Step *step, const Rates *rates,
                                      const int *offset, const int *stop, const long long *carrier, const double *d,
                                      const double *curve, const double *bend, const double *E, stored *T, const stored *row,
                                      stored *next) {
    const long long t = (long long)blockIdx.x * blockDim.x + threadIdx.x, stride = span / SOME, slot = step->slot, apart = span;
    const long long *merge = merges_of(step, slots);
    const int merges = step->merges, used = step->used;
    if (t >= stride) return;
    Some<stored> *rows = (Some<stored> *)T + t;
    for (int j = blockIdx.y; j < used; j += gridDim.y)
        for (int q = 0; q < UNITS; q++) {
            const auto place = [=](long long of) { return (offset[of] * UNITS + q * stop[of] + j) * stride; };
            for (int k = 0; k < merges; k++) {
                const long long older = merge[3 * k], newer = merge[3 * k + 1], into = merge[3 * k + 2];
                if (j >= stop[into]) continue;
                const Some<stored> moved = rows[place(older)];
                rows[place(into)] = newer == NONE ? moved : moved + rows[place(newer)];
            }
            rows[place(slot)] = ((const Some<stored> *)row + t)[(q * slots + j) * stride];
        }
    if (blockIdx.y != slot % gridDim.y) return;
    for (long long s = SOME * t; s < min(SOME * t + SOME, (long long)carriers); s++) {
        const long long i = carrier[s];
        double along = 0.0;
        for (int r = 0; r < UNITS; r++) along += d[r * width + i] * E[r * apart + s];
        along *= curve[i];
        for (int r = 0; r < UNITS; r++) {
            double source = 0.0;
            for (int q = 0; q < UNITS; q++)
                source += rates->A[r][q] * curved<double>(along, d[q * width + i], bend[q * width + i], E[q * apart + s]);
            next[(r * slots + slot) * apart + s] = -rates->eta * source;
        }
    }
}
