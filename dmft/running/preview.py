"""What a run would do, without doing it: the completed run file, its size, time and memory, and what may go wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dmft.core.parallel import Comm
from dmft.core.progress import time_text
from dmft.equations.kernels import COLUMNS
from dmft.model.data import is_sampled
from dmft.model.experiment import Experiment, theory_experiment
from dmft.model.links import NETWORK_LABEL
from dmft.model.network_errors import LINK_NODES, LINK_POINTS
from dmft.model.p_spin import PSpin
from dmft.model.runfile import Run
from dmft.model.support import CARD_UNITS
from dmft.model.two_times import SNAPSHOTS_HELD, kernel_bytes, simulated_steps, snapshot_bytes
from dmft.result.concerns import UNSTABLE_SHARE
from dmft.running.cost import Cost, estimate, replica_bytes, size_text
from dmft.running.replica import COARSE, HALF, WHOLE, Setup
from dmft.running.runner import check
from dmft.samples.formulas import OVERSHOOT
from dmft.samples.sampling import Sampling, draw

FEW_REPLICAS = 4        # with fewer, error bars are themselves poor
SMALL_M0 = 0.4          # below it labels without a sign need more samples than usual,
WANTED_SAMPLES = 4000.0  # namely this over m0^2: 10^5 at m0 = 0.2 (docs/faq.md)
TRIED = 65536           # samples whose first step is examined


@dataclass(frozen=True)
class Preview:
    """What `dmft check` and `sgd-sim check` print."""

    run: Run
    computed: list[str]
    costs: dict[str, Cost]       # by device, "cpu" and "gpu"
    warnings: list[str]

    def __str__(self) -> str:
        lines = [self.run.to_toml().rstrip(), "", *self.computed, *(_cost_line(*each) for each in self.costs.items())]
        return "\n".join(lines + [f"warning: {text}" for text in self.warnings])


def preview(run: Run, kind: str, comm: Comm) -> Preview:
    """The preview of a "theory" or a "simulation" on the ranks of `comm`. UserError for a run that could not be computed at all:
    with a start or a loss that the theory does not have, or larger than the memory."""
    section = "theory" if kind == "theory" else "simulation"
    here = {device: run.replace({f"{section}.device": device}) for device in ("cpu", "gpu")}
    warnings = [*run.notes(), *(_theory_warnings(run) if kind == "theory" else _simulation_warnings(run))]
    if kind == "theory" and run.theory.device == "cpu":
        check(run, comm)
    elsewhere = run.theory.method == "iterate" if kind == "theory" else not run.network.make_constraint().on_card
    if not is_sampled(run.problem) or run.network.units > CARD_UNITS or elsewhere:
        del here["gpu"]
    costs = {device: estimate(each, kind, comm.size, comm.threads(), cards=1) for device, each in here.items()}
    return Preview(run, _theory_work(run) if kind == "theory" else _simulation_work(run), costs, warnings)


def _cost_line(device: str, cost: Cost) -> str:
    where = "on this machine" if device == "cpu" else "on one H200 GPU"
    what = f"memory {size_text(cost.rank_bytes)} a rank" if device == "cpu" else f"{size_text(cost.card_bytes)} of the card"
    return (f"time {where}: about {time_text(cost.seconds)}; {what}, checkpoints of {size_text(cost.checkpoint_bytes)} "
            "(estimates, good to a factor of two, once the loops are compiled)")


def _steps_text(run: Run) -> str:
    return f"{run.algorithm.steps} steps of {run.algorithm.rate_text} to t = {run.algorithm.last_time:g}"


def _theory_work(run: Run) -> list[str]:
    """What a theory run computes, in lines of text."""
    setup, theory = Setup.from_run(run), run.theory
    if theory.method == "iterate":
        how = f"damped sweeps (mixing {theory.mixing:g}, at most {theory.max_sweeps})"
    else:
        how = "one causal march, " + ("full history" if setup.per_level is None else
                                      f"dyadic history of {setup.per_level} blocks a level")
    if not setup.sampled:
        coarse = ", with a companion of half the blocks for what blocks cost" if COARSE in setup.solutions(0) else ""
        return [f"theory of {run.algorithm.kind}: {_steps_text(run)}; {how}",
                f"no samples: nothing is random, errors are 0{coarse}; {_kernels_text(setup)}"]
    beside = ", each with a companion of half as many for the bias" if HALF in setup.solutions(0) else ""
    beside += ", every second one with another of half the blocks" if COARSE in setup.solutions(0) else ""
    which = "V_error" if setup.experiment.start.random else "m_error"
    more = f", more until {which} < {theory.target_error:g}" if theory.target_error > 0 else ""
    hidden = setup.experiment.hidden
    before = f" after {hidden} steps of power iteration (spectral start)" if hidden else ""
    return [f"theory of {run.algorithm.kind}: {_steps_text(run)}{before}; {how}",
            f"{theory.replicas} replicas of {theory.samples} samples{more}{beside}; {_kernels_text(setup)}", *_snapshots_text(run)]


def _snapshots_text(run: Run) -> list[str]:
    """What snapshots take."""
    return [f"fields of all samples at {len(run.theory.snapshots)} times: {size_text(snapshot_bytes(run))} in the result, "
            f"{SNAPSHOTS_HELD} times that in memory at the end"] if run.theory.snapshots else []


def _kernels_text(setup: Setup) -> str:
    """Which entries of the kernels will be kept, and what waiting times cost."""
    kept = setup.kept
    cells = int(np.count_nonzero(kept.upto > kept.grid))
    what = f"{len(kept.grid)} times t'" + (f", {cells} of them averages over a stretch" if cells else "")
    if setup.experiment.network is not None:
        return f"kernels at {what}, columns at {len(kept.waiting)} waiting times, blocks of {setup.experiment.network.units} x " \
               f"{setup.experiment.network.units}"
    held = size_text(8.0 * len(COLUMNS) * len(kept.times) * len(kept.waiting))
    return f"kernels at {what}, columns C(t, t_w) at {len(kept.waiting)} waiting times ({held}{_slots_text(setup)})"


def _slots_text(setup: Setup) -> str:
    """Slots and bytes of the samples of a replica that waiting times take in a history of blocks."""
    if setup.per_level is None:
        return ""
    if not setup.sampled:
        return f", {setup.slots} slots"
    free = replace(setup, wanted=setup.wanted._replace(waiting=np.zeros(0, np.int64)))
    slots, more = setup.history(WHOLE).slots, replica_bytes(setup) - replica_bytes(free)
    return f", and {slots - free.history(WHOLE).slots} of {slots} slots: {size_text(more)} of the samples of a replica"


def _simulation_work(run: Run) -> list[str]:
    s = run.simulation
    return [f"simulation of {run.algorithm.kind}: {_steps_text(run)}",
            f"{s.instances} instances of N = {s.dimension}, M = {round(run.problem.alpha * s.dimension)} data samples "
            f"({s.landscape} landscape, {s.precision})", *_pairs_text(run)]


def _pairs_text(run: Run) -> list[str]:
    """What two-time quantities will be measured, and what is kept for them."""
    if run.simulation.clones:
        return ["C_12 of two clones of every instance, which take twice the time"]
    if not run.simulation.kernels:
        return []
    return [f"C, M_C and R at {simulated_steps(run).size} times t', from two copies of every instance; weights and gradients "
            f"that are kept for them: {size_text(run.simulation.instances * kernel_bytes(run))}"]


def _theory_warnings(run: Run) -> list[str]:
    """What may go wrong in a theory run, in lines of text."""
    experiment, theory = theory_experiment(run), run.theory
    if not experiment.data.sampled:
        return closed_warnings(experiment)
    if run.has_network:
        return _error_warnings(run) + _few_replicas(run)
    found = _step_warnings(Experiment.from_run(run))
    if experiment.mirrored and not experiment.start.random:
        found.append("m0 = 0: in the limit of infinite dimension m stays exactly 0")
    wanted = WANTED_SAMPLES / experiment.m0**2 if experiment.m0 else 0.0
    if experiment.data.even and 0.0 < abs(experiment.m0) < SMALL_M0 and theory.samples < wanted:
        found.append(f"few samples for small m0: errors of the first instants grow with m; from m0 = {experiment.m0:.3g} take "
                     f"theory.samples of about {wanted:.1g} (now {theory.samples})")
    return found + _few_replicas(run)


def _error_warnings(run: Run) -> list[str]:
    """Whether the error of a network on new samples is rough."""
    k = run.network.directions
    if run.problem.label == NETWORK_LABEL or k in LINK_NODES:
        return []
    return [f"mse: labels of {k} directions are averaged over {LINK_POINTS} points, which is rough (a few per cent for products of "
            "directions); other curves do not need it"]


def _few_replicas(run: Run) -> list[str]:
    replicas = run.theory.replicas
    if replicas >= FEW_REPLICAS or run.theory.target_error > 0:
        return []
    bars = "there are no error bars" if replicas == 1 else "error bars are themselves poor"
    return [f"theory.replicas = {replicas}: {bars}; 8 is a good start"]


def closed_warnings(experiment: Experiment) -> list[str]:
    """What may go wrong in a run of a closed model: on the threshold, where descent ends, the Hessian has eigenvalues up to
    4 sqrt(f''(1)). Eq. [closed-threshold]."""
    assert isinstance(experiment.data, PSpin)
    fastest, eta = 4 * float(np.sqrt(experiment.data.derivatives()[1].sum())), float(experiment.eta_n.max())  # [closed-threshold]
    if eta * fastest <= OVERSHOOT:
        return []
    return [f"unstable step: learning_rate * 4 sqrt(f''(1)) = {eta * fastest:.3g} > 2, where the explicit step overshoots; take "
            f"algorithm.learning_rate below {OVERSHOOT / fastest:.2g}"]


def _simulation_warnings(run: Run) -> list[str]:
    experiment = Experiment.from_run(run)
    if not experiment.data.sampled:
        found = closed_warnings(experiment)
    else:
        found = _error_warnings(run) if run.has_network else _step_warnings(experiment)
    if run.simulation.instances == 1:
        found.append("simulation.instances = 1: there are no error bars")
    return found


def unstable_share(experiment: Experiment) -> float:
    """Weight of the samples that the first step of the dynamics overshoots: learning_rate v'' > 2, at the start."""
    sampling = Sampling(TRIED, 1, (0,), frozenset({"sobol"}), 1.0 / TRIED)
    draws = draw(experiment, sampling, np.arange(TRIED))
    d2v, f = experiment.loss(0).d2v, draws.h * draws.sd + experiment.m0 * draws.k
    curvature = np.array([d2v(x, y) for x, y in zip(f, draws.y, strict=True)])
    pushed = experiment.eta_n[0] * experiment.scale_n[0] * draws.s * curvature > OVERSHOOT
    return float(np.sum(draws.weight * pushed) / np.sum(draws.weight))


def _step_warnings(experiment: Experiment) -> list[str]:
    share = unstable_share(experiment)
    if share <= UNSTABLE_SHARE:
        return []
    return [f"unstable step: at the start samples of weight {share:.1g} have learning_rate * v'' > 2, where the explicit step "
            "overshoots; take a smaller algorithm.learning_rate"]
