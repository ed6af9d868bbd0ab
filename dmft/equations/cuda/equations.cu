// The equations of a step on a card, a block of threads for each solution: from sums over samples to row n of the kernels and to
// what drives the samples (`row_and_step`), and step n into the past (`enter_step`). Formulas are translated from rows.py, steps.py,
// ibp.py, noise.py and recursion.py; products and solves are those of algebra.cuh.
//
// dmft/equations/on_card.py puts before this file: structs, translated functions, STAGED (whether vectors lie in shared memory),
// EQUATION_THREADS, the numbers of the estimators in use, and how many numbers the records have.

// One step of a page of the plan, as on_card.py writes it: what the run prescribes, the blocks before the step with their
// neighbours, and the blocks after it.
struct Page {
    const long long *at;
    int slots, levels;
    __device__ Given &given() const { return *(Given *)at; }
    __device__ const Moving &moving() const { return *(const Moving *)(at + GIVEN_NUMBERS); }
    __device__ const long long *tables() const { return at + GIVEN_NUMBERS + MOVING_NUMBERS; }
    __device__ long long table() const { return 4LL * slots + 5LL * levels + COUNT_NUMBERS; }
    __device__ Blocks blocks(bool after) const {
        long long *from = (long long *)tables() + (after ? table() : 0);
        return {{from, 4, slots}, {from + 4LL * slots, 5, levels}, *(const Counts *)(from + 4LL * slots + 5LL * levels)};
    }
    __device__ Rule rule(const long long *stop, double *spread) const {
        long long *beside = (long long *)tables() + 2 * table();
        return {SLOPES, {(long long *)stop, slots}, {beside, 6, slots}, {(double *)(beside + 6LL * slots), 2, slots},
                {spread, 3, slots}};
    }
};

// The arrays of the solution of this block of threads. Vectors, work and drive lie in shared memory, behind the scratch, where there
// is room; else where they come from.
struct Arrays {
    double *matrices, *ridge, *vectors, *work, *drive, *spread;
};
__device__ inline Arrays arrays_of(double *matrices, double *ridge, double *vectors, double *work, double *drive, double *spread,
                                   int slots) {
    extern __shared__ __align__(16) double shared[];
    const long long z = blockIdx.z, square = (long long)slots * slots;
    Arrays own = {matrices + 4 * square * z, ridge + square * z, vectors + 4LL * slots * z, work + (long long)WORK_VECTORS * slots * z,
                  drive + 2LL * slots * z, spread + 3LL * slots * z};
    if (!STAGED) return own;
    double *vectors_here = shared + 2 * blockDim.x, *work_here = vectors_here + 4 * slots;
    for (int k = threadIdx.x; k < 4 * slots; k += blockDim.x) vectors_here[k] = own.vectors[k];
    for (int k = threadIdx.x; k < WORK_VECTORS * slots; k += blockDim.x) work_here[k] = own.work[k];
    own.vectors = vectors_here, own.work = work_here, own.drive = work_here + WORK_VECTORS * slots;
    own.spread = own.drive + 2 * slots;
    __syncthreads();
    return own;
}
// The tables that `kernel_weights` reads over and over, behind these arrays.
__device__ inline void stage_tables(const Arrays &own, int slots, Blocks &blocks, Rule &rule) {
    if (!STAGED || !SLOPES) return;
    long long *here = (long long *)(own.spread + 3 * slots);
    for (int k = threadIdx.x; k < 4 * slots; k += blockDim.x) here[k] = blocks.slots.at[k];
    for (int k = threadIdx.x; k < 8 * slots; k += blockDim.x) here[4 * slots + k] = rule.beside.at[k]; // `shares` lie behind them
    blocks.slots.at = here, rule.beside.at = here + 4 * slots, rule.shares.at = (double *)(here + 10 * slots);
    __syncthreads();
}
__device__ inline void copy_back(const double *from, double *to, long long count) {
    if (STAGED)
        for (long long k = threadIdx.x; k < count; k += blockDim.x) to[k] = from[k];
}
__device__ inline Solution solution_of(const Arrays &own, int slots, const Now &now) {
    return {{own.matrices, 4, slots, slots}, {own.ridge, slots, slots}, {own.vectors, 4, slots}, {own.work, WORK_VECTORS, slots},
            {own.drive, 2, slots}, now};
}

// Row n and the step that it makes. record: how it came out, the numbers of the step, scalar sums, and the vectors that kept rows
// are made of. Eqs. [dmft-nu], [dmft-MC], [dmft-MR], [dmft-mu], [dmft-Q], [dmft-R], [dmft-chi].
extern "C" __global__ void __launch_bounds__(EQUATION_THREADS) row_and_step(const int *wanted, int *alive, int *on, int slots, int levels, int columns, int record_width,
                                        const long long *page, const long long *stop, double *chosen, const double *totals,
                                        double *matrices, double *ridge, double *vectors, double *work, double *spread, double *now,
                                        Rates *rates, Present *present, double *record) {
    const int z = blockIdx.z, solutions = gridDim.z;
    record += (long long)record_width * z, totals += (long long)columns * z;
    const bool going = wanted[z] && alive[z];
    __syncthreads(); // before anybody changes `alive`
    const Page plan = {page, slots, levels};
    const Moving moving = plan.moving();
    By &estimator = *(By *)chosen;
    double bad = 0.0;
    for (int k = threadIdx.x; going && k < columns; k += blockDim.x) bad += step_unbounded<double>(totals[k], estimator.largest);
    const bool exploded = block_sum(bad) > 0.0 || step_too_many<double>(totals[LOST], estimator.most_lost);
    if (!going || exploded) {
        if (threadIdx.x == 0) record[0] = going ? EXPLODED : LEFT_OUT, on[z] = on[solutions + z] = 0, alive[z] = alive[z] && !going;
        return;
    }
    double *drive = (double *)(rates + solutions);
    const Arrays own = arrays_of(matrices, ridge, vectors, work, drive, spread, slots);
    Now *mine = (Now *)now + z;
    Solution one = solution_of(own, slots, *mine);
    Blocks blocks = plan.blocks(false);
    Rule rule = plan.rule(stop, own.spread);
    stage_tables(own, slots, blocks, rule);
    Given &given = plan.given();
    Use use = {USE_STEIN, USE_IDENTITY, USE_SHARE, USE_TRUSTED, USE_FAINT, USE_LATE};
    estimate<double>({(double *)totals, columns}, use, given, estimator, rule, blocks, one);
    row_steps<double>(true, true, given, estimator, rule, blocks, one);
    one.now.a = moving.hidden ? step_on_sphere<double>(one.now.norm) : step_rescaled<double>(one.now.norm);
    scaled<double>(given, one);
    __syncthreads();
    const bool gone = step_escaped<double>(one.now.norm, estimator.largest), moves = moving.moves && !gone;
    double *kept = record + 1 + NOW_NUMBERS + SCALARS;
    const int lines[] = {ROW_M_C, ROW_K_R};
    for (int j = threadIdx.x; j < slots; j += blockDim.x) {
        for (int line = 0; line < 2; line++) kept[line * slots + j] = own.work[lines[line] * slots + j];
        for (int line = 0; line < 4; line++) kept[(2 + line) * slots + j] = own.vectors[line * slots + j];
    }
    for (int k = threadIdx.x; k < SCALARS; k += blockDim.x) record[1 + NOW_NUMBERS + k] = totals[k];
    copy_back(own.work, work + (long long)WORK_VECTORS * slots * z, (long long)WORK_VECTORS * slots);
    copy_back(own.drive, drive + 2LL * slots * z, 2LL * slots);
    if (threadIdx.x) return;
    record[0] = gone ? ESCAPED : SOUND;
    *(Now *)(record + 1) = one.now, *mine = one.now;
    on[z] = on[solutions + z] = moves, alive[z] = !gone;
    Rates &rate = rates[z];
    rate.eta = given.eta, rate.a = one.now.a, rate.keep = one.now.keep, rate.chi_sd = one.now.chi_sd;
    rate.thermal = moving.thermal, rate.fraction = moving.fraction, rate.p_on = moving.p_on, rate.p_off = moving.p_off;
    for (int k = 0; k < 2; k++) {
        Present &then = present[2 * z + k];
        then.m = one.now.next_m, then.b = one.now.next_b, then.eta = moving.eta_next, then.scale = moving.scale_next;
    }
}

// Step n into the past, which the samples need not wait for.
extern "C" __global__ void __launch_bounds__(EQUATION_THREADS) enter_step(const int *on, int slots, int levels, const long long *page, const long long *stop, double *chosen,
                                      double *matrices, double *ridge, double *vectors, double *work, double *spread, double *now,
                                      Rates *rates) {
    const int z = blockIdx.z;
    if (!on[z]) return;
    const Page plan = {page, slots, levels};
    const Arrays own = arrays_of(matrices, ridge, vectors, work, (double *)(rates + gridDim.z), spread, slots);
    Now *mine = (Now *)now + z;
    Solution one = solution_of(own, slots, *mine);
    Blocks blocks = plan.blocks(true);
    __syncthreads();
    into_past<double>(true, plan.given(), *(By *)chosen, blocks, one);
    __syncthreads();
    copy_back(own.vectors, vectors + 4LL * slots * z, 4LL * slots);
    if (threadIdx.x == 0) *mine = one.now;
}
