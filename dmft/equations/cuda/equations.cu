// The equations of a step on a card, a block of threads for each solution: from sums over samples to row n of the kernels and
// to what drives the samples (`row_and_step`); beside it the noise, which needs the sums alone (`noise_given_past`); and step n
// into the past (`enter_step`). Formulas are translated from rows.py, steps.py, ibp.py, noise.py and recursion.py; products and
// solves are those of algebra.cuh.
//
// dmft/equations/on_card.py puts before this file: structs, translated functions, STAGED (whether vectors and tables lie in shared
// memory, and from ARRAYS_AT on), EQUATION_THREADS, which estimators are in use, and how many numbers the records have. `chosen`
// are the BY_NUMBERS of a By, then the numbers of the Use.

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
        return {SLOPES, {(long long *)stop, slots}, {beside, NEIGHBOUR_LINES, slots},
                {(double *)(beside + (long long)NEIGHBOUR_LINES * slots), SHARE_LINES, slots}, {spread, slots}};
    }
};

// The arrays of the solution of this block of threads. Vectors, work and drive lie in shared memory where there is room; else where
// they come from.
struct Arrays {
    double *matrices, *ridge, *vectors, *work, *drive, *spread;
};
__device__ inline void begin_copies(void *to, const void *from, int count) {
    for (int k = threadIdx.x; k < count; k += blockDim.x) begin_copy<8>((double *)to + k, (const double *)from + k);
}
// What comes from memory is there after `arrays_are_there`. anew: nothing of the work before is wanted.
__device__ inline Arrays arrays_of(double *matrices, double *ridge, double *vectors, double *work, double *drive, double *spread,
                                   int slots, bool anew) {
    double *shared = all_shared();
    const long long z = blockIdx.z, square = (long long)slots * slots;
    Arrays own = {matrices + 4 * square * z, ridge + square * z, vectors + 4LL * slots * z,
                  work + (long long)WORK_VECTORS * slots * z, drive + 2LL * slots * z, spread + (long long)slots * z};
    if (!STAGED) return own;
    double *vectors_here = shared + ARRAYS_AT, *work_here = vectors_here + 4 * slots;
    begin_copies(vectors_here, own.vectors, 4 * slots);
    if (!anew) begin_copies(work_here, own.work, WORK_VECTORS * slots);
    for (int k = threadIdx.x; anew && k < WORK_VECTORS * slots; k += blockDim.x) work_here[k] = 0.0;
    own.vectors = vectors_here, own.work = work_here, own.drive = work_here + WORK_VECTORS * slots;
    own.spread = own.drive + 2 * slots;
    return own;
}
// The tables of blocks, and those that `kernel_weights` reads over and over, behind these arrays.
__device__ inline void stage_blocks(const Arrays &own, int slots, Blocks &blocks) {
    if (!STAGED) return;
    long long *here = (long long *)(own.spread + slots);
    begin_copies(here, blocks.slots.at, 4 * slots);
    blocks.slots.at = here;
}
__device__ inline void stage_rule(const Arrays &own, int slots, Rule &rule) {
    if (!STAGED) return;
    long long *here = (long long *)(own.spread + slots) + 4 * slots, *tables = here + slots;
    begin_copies(here, rule.stop.at, slots);
    rule.stop.at = here;
    if (!SLOPES) return;
    begin_copies(tables, rule.beside.at, (NEIGHBOUR_LINES + SHARE_LINES) * slots); // `shares` lie behind `beside`
    rule.beside.at = tables, rule.shares.at = (double *)(tables + NEIGHBOUR_LINES * slots);
}
// What the run prescribes and the numbers of the estimator, behind all of these.
__device__ inline void stage_numbers(const Arrays &own, int slots, const Page &plan, double *chosen, Given *&given,
                                     By *&estimator) {
    given = &plan.given(), estimator = (By *)chosen;
    if (!STAGED) return;
    double *here = own.spread + (6LL + NEIGHBOUR_LINES + SHARE_LINES) * slots;
    begin_copies(here, given, GIVEN_NUMBERS), begin_copies(here + GIVEN_NUMBERS, estimator, BY_NUMBERS);
    given = (Given *)here, estimator = (By *)(here + GIVEN_NUMBERS);
}
__device__ inline void arrays_are_there() {
    end_copies();
    wait_for_copies<0>();
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

// Which of the inverses of the blocks on a diagonal are whose, (2, BLOCKS_NUMBERS): of the factor of M_C and that of Q + eps S.
enum { OF_NOISE, OF_RIDGE };

// Numbers of a Now that belong to the noise: `noise_given_past` works beside `row_and_step`, and each writes its own alone.
__device__ inline bool of_the_noise(int k) { return k == AT_FACTOR_FROM || k == AT_FLOORED || k == AT_CHI_SD; }
__device__ inline void put_numbers(const Now &from, bool noise, Now *to) {
    for (int k = 0; k < NOW_NUMBERS; k++)
        if (of_the_noise(k) == noise) ((long long *)to)[k] = ((const long long *)&from)[k];
}

// All matrices on their way into the card's cache, out of which the samples have pushed them: (count,) and (ridge_count,) numbers.
extern "C" __global__ void ask_for_matrices(long long count, const double *matrices, long long ridge_count, const double *ridge) {
    const int line = 16; // numbers of a line of memory
    for (long long k = line * (blockIdx.x * (long long)blockDim.x + threadIdx.x); k < count + ridge_count;
         k += line * (long long)gridDim.x * blockDim.x)
        ask_for(k < count ? matrices + k : ridge + (k - count));
}

// Row n and the step that it makes. alive (2, solutions): who is, after this row and before it; record: how it came out, the
// numbers of the step, scalar sums, and the vectors that kept rows are made of. Eqs. [dmft-nu], [dmft-MC], [dmft-MR], [dmft-mu],
// [dmft-Q], [dmft-R].
extern "C" __global__ void __launch_bounds__(EQUATION_THREADS, 1)
    row_and_step(const int *wanted, int *alive, int *on, int slots, int levels, int columns, int record_width,
                 const long long *page, const long long *stop, double *chosen, const double *totals, double *matrices,
                 double *ridge, double *inverses, int *inverted, double *vectors, double *work, double *spread, double *now,
                 Rates *rates, Present *present, double *record) {
    const int z = blockIdx.z, solutions = gridDim.z;
    record += (long long)record_width * z, totals += (long long)columns * z;
    const bool going = wanted[z] && alive[z];
    const Page plan = {page, slots, levels};
    const Moving moving = plan.moving();
    double *drive = (double *)(rates + solutions);
    const Arrays own = arrays_of(matrices, ridge, vectors, work, drive, spread, slots, true);
    Now *mine = (Now *)now + z;
    Solution one = solution_of(own, slots, *mine);
    Blocks blocks = plan.blocks(false);
    Rule rule = plan.rule(stop, own.spread);
    stage_blocks(own, slots, blocks), stage_rule(own, slots, rule);
    take_blocks(inverses + (2LL * z + OF_RIDGE) * BLOCKS_NUMBERS, inverted[z]);
    Given *prescribed;
    By *by;
    stage_numbers(own, slots, plan, chosen, prescribed, by);
    arrays_are_there(); // and everybody has looked at `alive`
    Given &given = *prescribed;
    By &estimator = *by;
    double bad = 0.0;
    for (int k = threadIdx.x; k < columns; k += blockDim.x) bad += step_unbounded<double>(totals[k], estimator.largest);
    const bool exploded = block_sum(bad) > 0.0 || step_too_many<double>(totals[LOST], estimator.most_lost);
    if (!going || exploded) {
        if (threadIdx.x == 0) record[0] = going ? EXPLODED : LEFT_OUT, on[z] = on[solutions + z] = 0, alive[z] = alive[z] && !going;
        return;
    }
    const double *numbers = chosen + BY_NUMBERS; // those of `Use`
    Use use = {USE_STEIN, USE_IDENTITY, numbers[0], numbers[1], numbers[2], numbers[3]};
    estimate<double>({(double *)totals, columns}, use, given, estimator, rule, blocks, one);
    row_steps<double>(true, false, given, estimator, rule, blocks, one);
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
    copy_back(own.drive + MEMORY * slots, drive + (2LL * z + MEMORY) * slots, slots);
    if (threadIdx.x) return;
    record[0] = gone ? ESCAPED : SOUND;
    put_numbers(one.now, false, (Now *)(record + 1)), put_numbers(one.now, false, mine);
    if (!moving.moves) put_numbers(one.now, true, (Now *)(record + 1)); // nobody draws noise for the last row
    on[z] = on[solutions + z] = moves, alive[z] = !gone;
    Rates &rate = rates[z];
    rate.eta = given.eta, rate.a = one.now.a, rate.keep = one.now.keep;
    rate.thermal = moving.thermal, rate.fraction = moving.fraction, rate.p_on = moving.p_on, rate.p_off = moving.p_off;
    for (int k = 0; k < 2; k++) {
        Present &then = present[2 * z + k];
        then.m = one.now.next_m, then.b = one.now.next_b, then.eta = moving.eta_next, then.scale = moving.scale_next;
    }
}

// What chi_n is drawn with, for solutions that were alive at the row before: whether they still are is found out beside it. If not,
// nobody looks at what it leaves. Eq. [dmft-chi].
extern "C" __global__ void __launch_bounds__(EQUATION_THREADS, 1)
    noise_given_past(const int *wanted, const int *alive, int slots, int levels, int columns, int record_width,
                     const long long *page, double *chosen, const double *totals, double *matrices, double *ridge,
                     double *inverses, int *inverted, double *vectors, double *work, double *spread, double *now, Rates *rates,
                     double *record) {
    const int z = blockIdx.z;
    if (!wanted[z] || !alive[gridDim.z + z]) return;
    const Page plan = {page, slots, levels};
    double *drive = (double *)(rates + gridDim.z);
    const Arrays own = arrays_of(matrices, ridge, vectors, work, drive, spread, slots, true);
    Now *mine = (Now *)now + z;
    Solution one = solution_of(own, slots, *mine);
    Blocks blocks = plan.blocks(false);
    stage_blocks(own, slots, blocks);
    take_blocks(inverses + (2LL * z + OF_NOISE) * BLOCKS_NUMBERS, inverted[z]);
    arrays_are_there();
    noise_row<double>({(double *)totals + (long long)columns * z, columns}, plan.given(), one);
    given_past<double>(*(By *)chosen, blocks, one);
    copy_back(own.drive + CHI_WEIGHTS * slots, drive + (2LL * z + CHI_WEIGHTS) * slots, slots);
    if (threadIdx.x) return;
    rates[z].chi_sd = one.now.chi_sd;
    put_numbers(one.now, true, (Now *)(record + (long long)record_width * z + 1)), put_numbers(one.now, true, mine);
}

// Step n into the past, which the samples need not wait for. A block of threads for M_C and the noise, and one for the rest:
// neither uses what the other changes, though both load all of it. The noise needs M_C_now, factor_from and floored of `now`, the
// line JITTER of `vectors` and ROW_M_C of `work` alone, and the rest none of these. Grid (1, 2, solutions).
extern "C" __global__ void __launch_bounds__(EQUATION_THREADS, 1)
    enter_step(const int *on, int *alive, int slots, int levels, const long long *page, double *chosen, double *matrices,
               double *ridge, double *inverses, int *inverted, double *vectors, double *work, double *spread, double *now,
               Rates *rates) {
    const int z = blockIdx.z;
    const bool of_noise = blockIdx.y > 0;
    if (!of_noise && threadIdx.x == 0) alive[gridDim.z + z] = alive[z];
    if (!on[z]) return;
    const Page plan = {page, slots, levels};
    const Arrays own = arrays_of(matrices, ridge, vectors, work, (double *)(rates + gridDim.z), spread, slots, false);
    Now *mine = (Now *)now + z;
    Solution one = solution_of(own, slots, *mine);
    Blocks blocks = plan.blocks(true);
    stage_blocks(own, slots, blocks);
    take_blocks(nullptr, false);
    arrays_are_there();
    if (of_noise) noise_into_past<double>(true, plan.given(), *(By *)chosen, blocks, one);
    else weights_into_past<double>(true, plan.given(), *(By *)chosen, blocks, one);
    leave_blocks(of_noise ? one.matrices[FACTOR] : one.ridge, of_noise ? one.now.factor_from : one.now.ridge_from,
                 inverses + (2LL * z + (of_noise ? OF_NOISE : OF_RIDGE)) * BLOCKS_NUMBERS);
    for (int line = 0; line < 4; line++)
        if (of_noise == (line == JITTER)) copy_back(own.vectors + line * slots, vectors + (4LL * z + line) * slots, slots);
    if (threadIdx.x > 0) return;
    const long long *numbers = (const long long *)&one.now;
    for (int k = 0; k < NOW_NUMBERS; k++)
        if (of_noise == (k == AT_FACTOR_FROM || k == AT_FLOORED)) ((long long *)mine)[k] = numbers[k];
    inverted[z] = 1;
}
