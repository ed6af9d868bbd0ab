"""Single-line mutations for tests/mutate.py: each is a slip that somebody could make, and that must not go unnoticed."""

from __future__ import annotations

from typing import NamedTuple

EQUATIONS = ("tests/dmft/equations",)
SOLVERS = ("tests/dmft/equations/test_first_steps.py", "tests/dmft/equations/test_solver_limits.py",
           "tests/dmft/equations/test_linear_loss.py", "tests/dmft/solvers/test_march_and_iterate.py")
FIRST_STEPS = SOLVERS[:1]
NOISE = ("tests/dmft/equations/test_noise.py",)
DYADIC = ("tests/dmft/equations/test_dyadic_history.py",)
MOMENTS = ("tests/dmft/equations/test_start_moments.py", "tests/dmft/equations/test_linear_loss.py")
MOMENTUM = ("tests/dmft/equations/test_momentum.py",)
TEMPERATURE = ("tests/dmft/equations/test_temperature.py",)
TANGENTS = ("tests/dmft/samples/test_tangents.py",)
OVERSHOOT = ("tests/dmft/samples/test_overshoot.py",)
GPU_MARCH = ("tests/dmft/samples/test_gpu_march.py",)
IBP = ("tests/dmft/equations/test_ibp.py", "tests/dmft/equations/test_first_steps.py")
DATA = ("tests/dmft/model/test_data_models.py", "tests/dmft/equations/test_data_rows.py")
DRIVER = ("tests/dmft/core/test_driver.py",)
COMMAND = ("tests/dmft/core/test_command.py", "tests/dmft/running/test_solver_behaviour.py")
SPECTRAL = ("tests/dmft/equations/test_spectral_start.py",)
ALGORITHMS = ("tests/dmft/equations/test_algorithms.py", "tests/dmft/model/test_algorithm_settings.py")
LOST = ("tests/dmft/samples/test_lost.py", "tests/dmft/running/test_divergence.py")
CLONES = ("tests/dmft/running/test_clones.py",)
LOSSES = ("tests/dmft/model/test_losses.py",)
RUN_FILES = ("tests/dmft/model/test_run_files.py",)
PLUGINS = ("tests/dmft/model/test_plugins.py",)
STORE = ("tests/dmft/core/test_store.py", "tests/dmft/core/test_locks.py")
STREAMS = ("tests/dmft/core/test_streams.py", "tests/sgd_sim/test_fast_normals.py")
AVERAGES = ("tests/dmft/core/test_averages.py",)
EXACT = ("tests/dmft/core/test_exact_sum.py",)
OBSERVABLES = ("tests/dmft/model/test_sample_averages.py", "tests/sgd_sim/test_simulator_averages.py")
SHARING = ("tests/dmft/core/test_sharing.py",)
STREAMING = ("tests/dmft/core/test_streaming.py",)
COMPARISON = ("tests/dmft/result/test_comparison.py", "tests/dmft/result/test_bound.py")
STATISTICS = ("tests/dmft/result/test_statistics.py",)
ORDERS = ("tests/dmft/convergence/test_orders.py",)
RUNNING = ("tests/dmft/running/test_solver_behaviour.py", "tests/dmft/running/test_error_bars.py")
RESUME = ("tests/dmft/running/test_solver_resume.py",)
SUBMIT = ("tests/workbench/cluster",)
INSPECT = ("tests/workbench/inspection",)
POINTS = ("tests/dmft/samples/test_points.py",)
SIMULATOR = ("tests/sgd_sim/test_simulator_reference.py", "tests/sgd_sim/test_simulator_laws.py")
SIMULATOR_ALGORITHMS = ("tests/sgd_sim/test_simulator_algorithms.py",)
MINIBATCH = ("tests/sgd_sim/test_simulator_minibatch.py", "tests/sgd_sim/test_simulator_laws.py")
SIMULATOR_RESULT = ("tests/sgd_sim/test_simulator_result.py", "tests/sgd_sim/test_simulator_shares.py",
                    "tests/sgd_sim/test_simulator_limits.py")
REPRODUCIBLE = ("tests/sgd_sim/test_simulator_reproducible.py",)
GPU_SIMULATOR = ("tests/sgd_sim/test_gpu_simulator.py",)
GPU_PRODUCTS = ("tests/sgd_sim/test_gpu_products.py",)
ONEPASS = ("tests/onepass/test_onepass_laws.py", "tests/onepass/test_onepass_machinery.py")
QUADRATIC = ("tests/onepass/test_onepass_quadratic.py",)
QUADRATIC_LAW = ("tests/onepass/test_onepass_quadratic_law.py",)
COMMITTEE = ("tests/onepass/test_onepass_committee.py",)
OVERLAPS = ("tests/onepass/test_network_overlaps.py",)
SPIKED = ("tests/onepass/test_onepass_laws.py", "tests/onepass/test_effective_sgd.py",
             "tests/onepass/test_effective_fixed_points.py")
DIFFERENTIAL = ("tests/differential/test_differential.py",)
MIXTURES = ("tests/onepass/test_onepass_laws.py", "tests/onepass/test_mixture_integrals.py",
             "tests/onepass/test_effective_sgd.py")


class Mutation(NamedTuple):
    """Replace `old`, which stands once below `folder`, by `new`: one of the tests must fail."""

    name: str
    folder: str
    old: str
    new: str
    tests: tuple[str, ...]


# Mutations that change nothing a test could see, each with the reason.
EQUIVALENT: dict[str, str] = {}

MUTATIONS = [
    # --- the nine that were found to survive
    Mutation("temperature of the next step in the weights", "dmft/equations",
             "q_u + now.heat, r)",
             "q_u + Settings.of(self.experiment, now.n + 1).heat, r)", TEMPERATURE),
    Mutation("nu_hat_direct without T", "dmft/equations", "temperature - overlap", "-overlap", TEMPERATURE),
    Mutation("no trimming in the spectral start", "dmft/model",
             "return y if y <= TRIM else 0.0", "return y if y >= 0.0 else 0.0",
             (*SIMULATOR, *SPECTRAL)),
    Mutation("no second look after a lock is taken", "dmft/core",
             "if place.exists() and os.path.samestat(os.fstat(handle), os.stat(place)):", "if True:", STORE),
    Mutation("p_off without l, in theory and simulator", "dmft/model",
             "eta / tau, (1 - fraction) * eta / (fraction * tau))",
             "eta / tau, (1 - fraction) * eta / tau)", (*SOLVERS, *MINIBATCH)),
    Mutation("noise of the SDE from the start of the step", "onepass", "stretch.covariance(x + 0.5 * h * drift(x))",
             "stretch.covariance(x)", ONEPASS),
    Mutation("random start of spiked models with n degrees", "onepass/spiked", "rng.chisquare(dimension - 1)",
             "rng.chisquare(dimension)", ONEPASS),
    Mutation("R of mixtures is not cut", "onepass/mixtures", "if values[0] < 0.0:", "if False:", ONEPASS),
    Mutation("steps of an ensemble are cut", "onepass", "np.rint(t / tau)", "np.floor(t / tau)", ONEPASS),
    # --- the macroscopic equations
    Mutation("no ridge in keep", "dmft/equations",
             "- now.eta * row.delta_nu - now.eta * now.ridge",
             "- now.eta * row.delta_nu", FIRST_STEPS),
    Mutation("sign of delta_nu", "dmft/equations",
             "now.inertia - now.eta * row.delta_nu",
             "now.inertia + now.eta * row.delta_nu", FIRST_STEPS),
    Mutation("m without mu", "dmft/equations",
             "self.free * m - eta * row.mu",
             "self.free * m", FIRST_STEPS),
    Mutation("half the heat", "dmft/model", "return 2 * temperature * eta * self.cooling",
             "return temperature * eta * self.cooling", TEMPERATURE),
    Mutation("memory of Q lost", "dmft/equations", "x[j] += weight * row[j]", "x[j] += 0.0 * row[j]", FIRST_STEPS),
    Mutation("memory of R lost", "dmft/equations", "r[j] += weight * row[j]", "r[j] += 0.0 * row[j]", FIRST_STEPS),
    Mutation("M_C(n, n) missing from q_u", "dmft/equations", "+ eta * dot(memory, b, used) + eta * c_now",
             "+ eta * dot(memory, b, used)", FIRST_STEPS),
    Mutation("nu_hat to first order", "dmft/equations",
             "(1 / a - 1) / eta",
             "(1 - a) / eta", FIRST_STEPS),
    Mutation("response at the new slot", "dmft/equations",
             "x[s], r[s] = following.Q_with_last, following.R_last",
             "x[s], r[s] = following.Q_with_last, 1.0", FIRST_STEPS),
    Mutation("sign of M_R", "dmft/equations", "M_R=-alpha * (responses", "M_R=alpha * (responses", SOLVERS),
    Mutation("M_C without alpha on the diagonal", "dmft/equations", "M_C_now=alpha * sums[GG]", "M_C_now=sums[GG]", SOLVERS),
    Mutation("regression of Stein with the wrong sign", "dmft/equations",
             "mu=row.mu - share * (row.mu",
             "mu=row.mu + share * (row.mu", (*MOMENTS, *RUNNING)),
    Mutation("variance of chi without the part explained", "dmft/equations", "left = variance - dot(half, half, size)",
             "left = variance", SOLVERS),
    Mutation("jitter missing from the variance drawn", "dmft/equations", "row.M_C_now * (1 + jitter)", "row.M_C_now",
             NOISE),
    Mutation("blocks are long beside the time since the start", "dmft/equations", "s += 1 + s // early", "s += 2 + s // early",
             DYADIC),
    Mutation("a merged block forgets its first step", "dmft/equations", "begin, both, mine = first[older], size[older],",
             "begin, both, mine = first[older] + 1, size[older],", DYADIC),
    Mutation("a waiting step is merged with the next", "dmft/equations", "for n in pins for k in (0, 1)}",
             "for n in pins for k in (0,)}", DYADIC),
    Mutation("slopes inside blocks with the wrong sign", "dmft/equations", "spread = w * v * slope", "spread = -w * v * slope",
             DYADIC),
    Mutation("slopes across a jump", "dmft/equations", " or jumps[first[order[max(place, beyond)]]]:", ":", DYADIC),
    Mutation("slopes off single steps beside long blocks", "dmft/equations", "jumps, i, -1, (w + 1) // 2)", "jumps, i, -1, 1)",
             DYADIC),
    Mutation("a column of the wrong step", "dmft/equations", "columns[name][line, :waited] = past[slots]",
             "columns[name][line, :waited] = 1.01 * past[slots]", INSPECT),
    Mutation("the integrated response misses a part", "dmft/equations", 'columns["chi"][line, :waited] = since[',
             'columns["chi"][line, :waited] = 0.99 * since[', (*DYADIC, *INSPECT)),
    Mutation("variance of the start with ridge", "dmft/model",
             "        return self.start_variance\n",
             "        return 1 - m0**2\n", MOMENTS),
    Mutation("gradient not rescaled", "dmft/model",
             "1 / fraction if algorithm.rescale_gradient",
             "np.ones(steps) if algorithm.rescale_gradient", SOLVERS),
    # --- samples
    Mutation("tangent without its own loss", "dmft/samples",
             "slope = a * (keep - eta * gp)",
             "slope = a * keep", SOLVERS),
    Mutation("response at its own step", "dmft/samples",
             "-a * eta * gp, merges",
             "-eta * gp, merges", SOLVERS),
    Mutation("path without its gradient", "dmft/samples",
             "eta * (dot(memory, H, used) + chi - g)",
             "eta * (dot(memory, H, used) + chi)", SOLVERS),
    Mutation("thermal noise not mirrored", "dmft/samples",
             "return z, sign[i] * xi",
             "return z, xi", SOLVERS),
    Mutation("persistent chain leaves with p_on", "dmft/model",
             "return 1.0 if u < 1.0 - chain.p_off else 0.0",
             "return 1.0 if u < 1.0 - chain.p_on else 0.0", SOLVERS),
    Mutation("Stein tangent without the teacher", "dmft/samples",
             "- gp * Y - g_y\n",
             "- gp * Y\n", SOLVERS),
    Mutation("weights of the wide start", "dmft/samples", "np.exp(-growth)", "np.exp(-0.9 * growth)", POINTS),
    Mutation("samples far out weigh as normals", "dmft/samples", "1.0, upto, by.start_width)", "1.0, upto)", POINTS),
    Mutation("the start is turned the wrong way", "dmft/samples", "spread * (sine * one - cosine * other)",
             "spread * (sine * one + cosine * other)", ("tests/dmft/equations/test_start_moments.py",)),
    Mutation("neighbours with the same later normals", "dmft/samples", "= first + place // 2, 1.0 - 2.0 * (place % 2)",
             "= first + place // 2, 1.0", POINTS),
    Mutation("neighbours that are not close", "dmft/samples", "for column in digits.T:", "for column in digits.T[:0]:", POINTS),
    Mutation("a response to the label without bound", "dmft/samples",
             "most = bounds.tangent_max if eta * gp > OVERSHOOT else bounds.y_max",
             "most = bounds.tangent_max if eta * gp > OVERSHOOT else np.inf", ("tests/dmft/samples/test_gpu_march.py",)),
    Mutation("sign labels start as on a barrier", "dmft/samples", "elif wide and experiment.barriers and", "elif wide and", POINTS),
    Mutation("batch of the step before", "dmft/model",
             "uniform2(key, label, n + 1)",
             "uniform2(key, label, n)", (*SOLVERS, *GPU_MARCH)),
    Mutation("no bound on overshooting tangents", "dmft/samples",
             "out[j] = min(max(out[j], -most), most)",
             "out[j] = out[j]", OVERSHOOT),
    Mutation("iteration looks one row too far", "dmft/samples", "for j in range(min(PULL_TILE, first - left)):",
             "for j in range(min(PULL_TILE, first - left) - 1):", TANGENTS),
    Mutation("Poisson counts cut at one", "dmft/model",
             "while u >= below and count < _MOST:",
             "while u >= below and count < 1.0:", (*SOLVERS, *GPU_MARCH)),
    # --- model, statistics, comparison
    Mutation("second derivative of the loss", "dmft/model",
             "return 3.0 * f * f - y * y",
             "return 3.0 * f * f - y", LOSSES),
    Mutation("derivative of the loss", "dmft/model",
             "return f * (f * f - y * y)\n",
             "return f * (f * f - y)\n", LOSSES),
    Mutation("mse without its angle", "dmft/model", "4 / np.pi * (gap + m * np.arctan2(m, gap))", "4 / np.pi * gap",
             (*RUNNING, *SIMULATOR_RESULT)),
    Mutation("schedule begins a step late", "dmft/model",
             "np.asarray(t) + _ROUNDING * np.asarray(eta)",
             "np.asarray(t) - _ROUNDING * np.asarray(eta)", (*RUN_FILES, *TEMPERATURE)),
    Mutation("standard error without ddof", "dmft/core",
             "np.std(values, axis=0, ddof=1) / np.sqrt(count)",
             "np.std(values, axis=0) / np.sqrt(count)", AVERAGES),
    Mutation("Welford adds the wrong gap", "dmft/result", "squares += gap * (array - mean)", "squares += gap * gap",
             STATISTICS),
    Mutation("bias with the wrong sign", "dmft/result", "half[name] - whole[name]", "whole[name] - half[name]", STATISTICS),
    Mutation("history error without its third", "dmft/result", "(coarse[name] - half[name]) / 3", "coarse[name] - half[name]",
             STATISTICS),
    Mutation("a companion that diverged counts", "dmft/result", "bool(np.isfinite(estimates[\"m\"]).all())", "True", STATISTICS),
    Mutation("errors added, not their squares", "dmft/result",
             "np.nan_to_num(theory.error) ** 2 + np.nan_to_num(simulation.error) ** 2",
             "np.nan_to_num(theory.error) ** 2", COMPARISON),
    Mutation("extrapolation returns the slope", "dmft/result", "(s2 * y0 - s1 * y1) / determinant",
             "(s0 * y1 - s1 * y0) / determinant",
             COMPARISON),
    Mutation("bound without Bonferroni", "dmft/result", "chance / 2.0 / tests", "chance / 2.0", COMPARISON),
    # --- schedules, momentum, lost samples
    Mutation("momentum keeps its heat", "dmft/model", "return 1.0 - beta\n", "return 1.0 - 0 * beta\n", MOMENTUM),
    Mutation("the first step has momentum", "dmft/model", "        kept[0] = 0.0\n", "", MOMENTUM),
    Mutation("the first step forgets the weights before", "dmft/model", "A[0], B[0], ahead[0] = A[0] - B[0], 0.0, 0.0",
             "B[0], ahead[0] = 0.0, 0.0", MOMENTUM),
    Mutation("samples without the drift of a rule", "dmft/samples", "ahead + drift * behind if drift else ahead.copy()",
             "ahead.copy()", MOMENTUM),
    Mutation("m without the drift of a rule", "dmft/equations", "m_u += now.drift * self.state.m_w", "pass", MOMENTUM),
    Mutation("momentum without its recoil", "dmft/equations",
             "memory[self.history.order[-1]] -= now.recoil / now.eta", "pass", ALGORITHMS),
    Mutation("momentum forgets to push on", "dmft/model",
             "return 1.0 + beta, beta, 0.0", "return 1.0, beta, 0.0", ALGORITHMS),
    Mutation("response in the units of the step", "dmft/equations", "b_now = unit * dot(R_row, correlation, used)",
             "b_now = eta * dot(R_row, correlation, used)", ALGORITHMS),
    Mutation("no sample is ever lost", "dmft/samples",
             "return abs(step) > most * (1.0 + abs(field) + abs(y))", "return False", LOST),
    Mutation("a lost sample comes back", "dmft/samples", "changes[i]) if s[i] >= 0.0 else GONE", "changes[i]) if True else GONE",
             LOST),
    Mutation("copies share their heat", "dmft/samples", "(step.q_u - self.weights.settings.heat)", "step.q_u", CLONES),
    Mutation("copies share their mini-batches", "dmft/samples", '"batch of clones"', '"batch"', CLONES),
    # --- the identity that completes the response, and the data models
    Mutation("identity corrects with the wrong sign", "dmft/equations",
             "M_R[order[i]] += size[order[i]] * (alone", "M_R[order[i]] -= size[order[i]] * (alone", IBP),
    Mutation("control variate stays at late times", "dmft/equations", " / (1 + (t / late) ** 4)", "", IBP),
    Mutation("identity leaves delta_nu alone", "dmft/equations", "delta_nu=row.delta_nu - now", "delta_nu=row.delta_nu", IBP),
    Mutation("identity forgets the sizes of blocks", "dmft/equations",
             "state.ridge_eps * weights.history.size, order",
             "state.ridge_eps * np.ones_like(weights.history.size), order", IBP[:1]),
    Mutation("ridge of the identity without the share", "dmft/equations", "max(share * g_squared", "max(g_squared", IBP[:1]),
    Mutation("gap of the identity without the teacher", "dmft/equations", "alpha * (sums[GH] - m * sums[GK])",
             "alpha * sums[GH]", IBP),
    Mutation("responses of a share are not scaled up", "dmft/equations", "responses / sums[CARRIED] if use.identity",
             "responses if use.identity", IBP),
    Mutation("labels are not flipped", "dmft/model", "np.where(flipped, -y, y)", "y", DATA),
    Mutation("slope of square labels", "dmft/model", "        return 2.0 * h0\n", "        return h0\n", DATA),
    Mutation("jump of noisy labels too narrow", "dmft/model", "return np.sqrt(label_noise / wide), ",
             "return np.sqrt(label_noise), ", DATA),
    Mutation("pairs on a jump with the weight of one", "dmft/samples", "label * jump.size / sampling.pairs",
             "label * jump.size", DATA),
    Mutation("noise of labels missing from the error", "dmft/model", "magnitude_error(m, q) + label_noise",
             "magnitude_error(m, q)", DATA),
    Mutation("a norm that a constraint fixes, taken for 1", "dmft/equations", " * (self.settings.constraint.norm or 1.0)", "",
             PLUGINS),
    Mutation("start on a sphere of another norm", "dmft/model", "else self.norm - m0**2", "else 1.0 - m0**2", PLUGINS),
    Mutation("multiplier of another norm", "dmft/equations", " / (constraint.norm or 1.0)", "", PLUGINS),
    Mutation("intercept moves up the slope", "dmft/equations", "self.state.b -= self.experiment.eta_n",
             "self.state.b += self.experiment.eta_n", DATA),
    Mutation("intercept without alpha", "dmft/equations", "[self.state.n - 1] * self.experiment.alpha * slope",
             "[self.state.n - 1] * slope", DATA),
    # --- files and streams
    Mutation("checksum is not compared", "dmft/core", "if seal != _seal(path, size - _SEAL_LENGTH):", "if False:", STORE),
    Mutation("newer files are read", "dmft/core", "if schema > SCHEMA_VERSION:", "if False:", STORE),
    Mutation("strays are left", "dmft/core", "stray.unlink(missing_ok=True)", "pass", STORE),
    Mutation("a key without its replica", "dmft/core", "\"/\".join(str(int(i)) for i in index)", "\"\"", STREAMS),
    Mutation("the first rank that leaves ends the service of all", "dmft/core", "fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)",
             "fcntl.flock(users, fcntl.LOCK_SH | fcntl.LOCK_NB)", SHARING),
    Mutation("four rows with the weight of the first", "dmft/core", "total = fused(builder, factors[k], numbers, total)",
             "total = fused(builder, factors[0], numbers, total)", STREAMING),
    Mutation("sums of gradients in single precision", "dmft/samples", "G=np.zeros((count, slots))",
             "G=np.zeros((count, slots), dtype)", DYADIC),
    Mutation("a digit of an exact sum is dropped", "dmft/core", "low[i] += (l0 + l1) + (l2 + l3)", "pass",
             EXACT),
    Mutation("any key may change on resume", "dmft/model", "if key in allowed and (", "if True or (", RUN_FILES),
    Mutation("a declared terabyte is read", "dmft/core", "elif item.nbytes > most:", "elif False:", STORE),
    Mutation("data in other files are followed", "dmft/core", "elif item.is_virtual or item.external:", "elif False:", STORE),
    Mutation("a full disk is not noticed", "dmft/core", "            self.error = error\n        return size",
             "            pass\n        return size",
             (*STORE, "tests/dmft/core/test_driver.py")),
    Mutation("a cut checkpoint is taken up", "dmft/core", "if not _verify(place, state):", "if False:", STORE),
    Mutation("times of earlier stretches are lost", "dmft/core", "seconds = self.seconds_before + time.monotonic()",
             "seconds = time.monotonic()", RESUME),
    Mutation("checkpoint stays after the result", "dmft/core", "            self.checkpoint.remove()\n", "            pass\n",
             (*RESUME, *DRIVER)),
    Mutation("workers that wait are dropped from the next checkpoint", "dmft/core", "sorted(self.waiting - set(indices))", "[]",
             (*RESUME, *DRIVER)),
    Mutation("sleep counts as work", "dmft/core", "begin = time.monotonic()     # sleep",
             "begin = time.monotonic() - worker.done * min(LOOK, news.took)     # sleep", DRIVER),
    Mutation("SIGINT ends as SIGTERM", "dmft/core", "    if flags & 2:\n", "    if False:\n", (*COMMAND, *DRIVER)),
    Mutation("a changed plug-in is taken", "dmft/core", "if key.startswith(\"plugin:\") and hashes and value not in hashes",
             "if False",
             (*COMMAND, *RESUME)),
    Mutation("Box-Muller without its sine", "dmft/core", "radius * np.cos(angle), radius * np.sin(angle)",
             "radius * np.cos(angle), radius * np.cos(angle)", STREAMS),
    Mutation("nine rounds of Philox", "dmft/core",
             "for _ in range(10):\n        p0", "for _ in range(9):\n        p0", STREAMS),
    # --- the simulator
    Mutation("no normalisation on the sphere", "sgd_sim/cpu", "w[i] *= a_n", "w[i] *= 1.0", SIMULATOR),
    Mutation("gradient does not start from zero", "sgd_sim/cpu", "np.float32(0.0)\n    pass_over_rows(visit.data",
             "np.float32(0.001)\n    pass_over_rows(visit.data", SIMULATOR),
    Mutation("too little heat", "sgd_sim/cpu", "add_noise(lanes.w[:, lane], settings.noise",
             "add_noise(lanes.w[:, lane], 0.7 * settings.noise", SIMULATOR),
    Mutation("replacement draws miss the last row", "sgd_sim/kernels", "s[int(u * s.size)] += 1",
             "s[int(u * (s.size - 1))] += 1", MINIBATCH),
    Mutation("biased Fisher-Yates", "sgd_sim/kernels", "j = k + int((v if k % 2 else u) * (rows - k))",
             "j = int((v if k % 2 else u) * rows)", MINIBATCH),
    Mutation("loss from the wrong fields", "sgd_sim/cpu", "loss += call_scalar(settings.v, h, label)",
             "loss += call_scalar(settings.v, h, label * 1.0001)", SIMULATOR),
    Mutation("heavy ball recoils too little", "sgd_sim/kernels", "- recoil * before", "- 0.99 * recoil * before",
             SIMULATOR_ALGORITHMS),
    Mutation("Nesterov looks too far ahead", "sgd_sim/kernels", "return w + lookahead * (w - before)",
             "return w + 1.01 * lookahead * (w - before)", SIMULATOR_ALGORITHMS),
    Mutation("epochs overlap", "sgd_sim/kernels", "(since + 1) * samples // law.period", "(since + 1) * samples // law.period + 1",
             SIMULATOR_ALGORITHMS),
    Mutation("heat of momentum", "sgd_sim/kernels", "np.sqrt(experiment.heat_n)",
             "np.sqrt(2 * experiment.temperature * experiment.eta_n)", SIMULATOR_ALGORITHMS),
    Mutation("warm start not normal to the teacher", "sgd_sim", "else z - (z @ w0 / w0.size) * w0)", "else z)",
             (*SIMULATOR_RESULT, *SIMULATOR)),
    Mutation("diverged instances in the mean", "dmft/core",
             "total / np.maximum(count, 1), np.nan)",
             "total / len(values), np.nan)", (*AVERAGES, *SIMULATOR_RESULT)),
    Mutation("Wilson interval without its centre", "sgd_sim", "(share + z * z / (2 * n))", "share", SIMULATOR_RESULT),
    # --- observables
    Mutation("observables take k for the field of w0", "dmft/samples", "+ b, y[i], sd[i] * k[i])", "+ b, y[i], k[i])", OBSERVABLES),
    Mutation("observables count lost samples", "dmft/samples", "                if s[i] >= 0.0:", "                if True:",
             OBSERVABLES),
    Mutation("observables of the simulator take labels for fields of w0", "sgd_sim", "teachers[0] if teachers else parts[1],",
             "parts[1],", OBSERVABLES),
    Mutation("GPU: observables without weights", "dmft/samples/cuda", "for (double &term : terms) term *= weight[i];", "",
             OBSERVABLES),
    # --- CUDA sources, emulated on the host
    Mutation("GPU: tangents without g'", "dmft/samples/cuda",
             "slope = a * (rates->keep - eta * curvature)",
             "slope = a * rates->keep", GPU_MARCH),
    Mutation("GPU: chi without its past", "dmft/samples/cuda", "noise.at[v] += chi_weight * x[r].at[v];",
             "noise.at[v] += 0.0 * x[r].at[v];", GPU_MARCH),
    Mutation("GPU: a column of the sums that is not filled", "dmft/samples/cuda", "terms[PUSH] = w * slope / sd[i];", "",
             GPU_MARCH),
    Mutation("GPU: merged past lost", "dmft/samples/cuda", "newer == NONE ? moved : moved + v[newer * stride];",
             "newer == NONE ? moved : v[newer * stride];", GPU_MARCH),
    Mutation("GPU: merged tangents lost", "dmft/samples/cuda", "moved + column[newer * stride];", "column[newer * stride];",
             GPU_MARCH),
    Mutation("GPU: merged tangents kept", "dmft/samples/cuda", "column[older * stride] = {};", "", GPU_MARCH),
    Mutation("GPU: tangents behind the last whole part lost", "dmft/samples/cuda",
             "share = (cut[b + 1] - cut[b] + parts - 1) / parts",
             "share = (cut[b + 1] - cut[b]) / parts", GPU_MARCH),
    Mutation("GPU: the second four of a part taken for its first", "dmft/samples/cuda",
             "place[r] = there ? first + r * ACROSS : 0;",
             "place[r] = there ? first + r * LANES : 0;", GPU_MARCH),
    Mutation("GPU: slots behind the last one count", "dmft/samples/cuda", "k < active ? chi_weights[slot] : 0.0",
             "chi_weights[slot]", GPU_MARCH),
    Mutation("GPU: rows from the source on, but for one", "dmft/samples/cuda", "order[source + min(k, rows - 1)]",
             "order[source + min(k + 1, rows - 1)]", GPU_MARCH),
    Mutation("GPU: empty slots of a checkpoint keep what they had", "dmft/samples",
             "array[np.flatnonzero(self.history.size[: len(array)] == 0)] = 0.0", "pass", GPU_MARCH),
    Mutation("GPU: no heat in the weights", "sgd_sim/gpu/cuda", "u[k] += noise * one_normal(",
             "u[k] += 0.5 * noise * one_normal(",
             GPU_SIMULATOR),
    Mutation("GPU: weights leave the constraint", "sgd_sim/gpu/cuda", "u[k] *= a_n;", "u[k] *= 1.0;", GPU_SIMULATOR),
    Mutation("GPU: chain forgets", "sgd_sim/gpu/cuda", "word, enter, on, off)", "word, enter, on, on)", GPU_SIMULATOR),
    Mutation("GPU: fresh error signed", "sgd_sim/gpu/cuda", "miss<double>(test_fields[i], test_h0[i])",
             "test_fields[i] - test_h0[i]", GPU_SIMULATOR),
    Mutation("GPU: rows behind the last whole slab lost", "sgd_sim/gpu/cuda", "slabs = (summands + SLAB - 1) / SLAB",
             "slabs = summands / SLAB", GPU_PRODUCTS),
    Mutation("GPU: one mini-batch for all starts", "sgd_sim/gpu/cuda", "s[(i64)start * rows + min(", "s[min(", GPU_PRODUCTS),
    # --- one pass
    Mutation("quadratic: no second-order term", "onepass/networks", "(4.0 * self.gamma / p) * pair * e2[..., :p, :p]",
             "0.0 * pair * e2[..., :p, :p]", QUADRATIC),
    Mutation("quadratic: moments of E^2", "onepass/networks", "t1**2 + 2.0 * t2 + noise", "t1**2 + t2 + noise", QUADRATIC),
    Mutation("quadratic: covariance keeps the mean", "onepass/networks",
             "second_moment - mean[..., :, None] * mean[..., None, :]",
             "second_moment", (*QUADRATIC_LAW, *QUADRATIC)),
    Mutation("random overlaps with d degrees", "onepass/networks", "rng.chisquare(dimension - k - np.arange(width))",
             "rng.chisquare(dimension - np.arange(width))", OVERLAPS),
    Mutation("spiked: chain with n degrees", "onepass/spiked", "rng.chisquare(dimension - 2) if",
             "rng.chisquare(dimension) if", SPIKED),
    Mutation("spiked: ridge missing", "onepass/spiked", "(m * m + r2) ** (k - 1) + 2.0 * self.ridge",
             "(m * m + r2) ** (k - 1)", SPIKED),
    Mutation("spiked: noise across", "onepass/spiked", "4.0 * r2 * (iso + aniso * r2)", "4.0 * r2 * iso", SPIKED),
    Mutation("mixtures: corrector missing", "onepass/mixtures", "g[place] = gain * v[i] * v[j] * B[i, j]",
             "g[place] = 0.0", MIXTURES),
    Mutation("mixtures: degrees of freedom", "onepass/mixtures", "freedom = dimension - r - p", "freedom = dimension",
             MIXTURES),
    Mutation("mixtures: covariance keeps the mean", "onepass", "second[i, j] -= mean[i] * mean[j]",
             "second[i, j] -= 0.0", MIXTURES),
    Mutation("chain restarts at every record", "onepass", "batch.advance(taken)", "batch.advance(step + taken)", ONEPASS),
    Mutation("snapshots of onepass without the random numbers", "onepass", "_set_words(item, array)", "pass",
             ("tests/onepass/test_ensemble_stops.py",)),
    Mutation("records of onepass before a stop are lost", "onepass", "records = self.flat[lines]",
             "records = np.full_like(self.flat[lines], np.nan)", ("tests/onepass/test_ensemble_stops.py",)),
    Mutation("diverged instances in the mean of onepass", "onepass", "kept = ~self.diverged if self.diverged.size",
             "kept = self.diverged | True if self.diverged.size", ("tests/onepass/test_onepass_machinery.py",)),
    # --- how far tangents are trusted
    Mutation("all tangents are trusted on a loss with barriers", "dmft/solvers",
             "trusted_share(sampling.carriers, sampling.samples, by) if experiment.nonconvex else share", "share", IBP),
    Mutation("tangents of any number of samples are trusted", "dmft/equations",
             ", estimator.most_trusted) / samples", ") / samples", IBP),
    # --- what is refused, in every phase, and what a run is asked before it is solved
    Mutation("a loss whose slope jumps is solved", "dmft/model",
             'return "" if use.data.smooth(loss) else (', 'return "" if True else (', DIFFERENTIAL),
    Mutation("only the first loss of a random start is asked", "dmft/model", "if not use.data.even_in_teacher(loss):",
             "if not use.data.even_in_teacher(use.data.loss):", DIFFERENTIAL),
    Mutation("jumps in f are looked for at few labels", "dmft/model", "tuple(sorted({*y.tolist(), *self._reached}))", "(1.0, -1.0)",
             LOSSES),
    Mutation("evenness of small fields alone", "dmft/model", "_alike(loss.v(2 * f, y), loss.v(-2 * f, y))",
             "_alike(loss.v(0.5 * f, y), loss.v(-0.5 * f, y))", LOSSES),
    Mutation("momentum of the first phase alone forbids an intercept", "dmft/model",
             "self.bias and use.algorithm.has_momentum", "self.bias and use.algorithm.momentum != 0.0", DIFFERENTIAL),
    Mutation("labels of a loss made for others", "dmft/model",
             "if use.later and not said and loss.labels and", "if False and", DIFFERENTIAL),
    Mutation("an intercept that was not learnt is read as NaN", "dmft/model", 'curves.get("b", 0.0) if run.problem.bias else 0.0',
             'curves.get("b", 0.0)', SIMULATOR_RESULT[:1]),
]
