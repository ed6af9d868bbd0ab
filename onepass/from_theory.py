"""Run files with [network], of the multi-pass theory, as run files of one pass: the limit of many samples.

The theory takes steps u_r = (1 - eta lambda) w_r - eta sum_mu (s_mu/l) dv/dh_r x_mu/sqrt(N) over alpha N samples, f = sum_r a_r
sigma(h_r). When a sample is never seen again, its step is one of SGD: with p a for a and k a* for a* (a network here is a mean over
its units),
    gamma = eta/l,   t = (alpha/p) t_theory,   weight_decay = p lambda/alpha,   second_layer_rate = p^2 eta_a/eta,
and the limit alpha -> infinity at fixed eta alpha is descent on the population loss in steps of eta alpha/p (large_batches.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dmft.core.errors import RunError
from dmft.model.activations import SMOOTH_RELU
from dmft.model.network import network_of
from dmft.model.runfile import Run

LIKE_ONE_PASS = ("gd", "sgd", "persistent_sgd")     # which samples a step takes does not matter where there are many


def step_length(run: Run) -> float:
    """Time, here, of one step of the theory: eta alpha/p."""
    return run.algorithm.first_rate * run.problem.alpha / run.network.units


def document_of(run: Run, source: str) -> dict[str, Any]:
    """The run file of one pass, by sections; RunError for what has no meaning there."""
    _check(run, source)
    network, problem, algorithm = run.network, run.problem, run.algorithm
    two, p, k = network_of(network, problem, source), network.units, network.directions
    eta, share = algorithm.first_rate, float(np.asarray(algorithm.batch_fraction))
    model: dict[str, Any] = {
        "kind": "Network", "activation": network.activation, "width": p, "teacher_width": k, "gamma": eta / share,
        "noise": problem.label_noise, "constraint": two.constraint.one_pass,
    }  # fmt: skip
    if two.train > 0.0:
        model |= {"second_layer": "trained", "second_layer_rate": p**2 * two.train / eta}
    if not two.constraint.rescales:
        model["weight_decay"] = p * float(np.asarray(problem.ridge)) / problem.alpha
    M = two.m0
    if two.label.link is not None:
        model["link"] = two.label.link.name
    else:
        model |= {"teacher_activation": network.teacher_activation or network.activation,
                  "teacher_weights": (k * two.label.weights).tolist(),
                  "teacher_overlaps": (two.label.root @ two.label.root.T).tolist()}
        M = two.m0 @ two.label.root.T       # overlaps with the teacher's units in place of those with orthonormal directions
    initial = {"a": (p * two.a).tolist(), "M": M.tolist(), "Q": (two.Q0 + two.m0 @ two.m0.T).tolist()}
    simulation = {"dimension": run.simulation.dimension, "instances": run.simulation.instances, "seed": run.simulation.seed}
    t_max = problem.alpha * algorithm.last_time / p
    return {"title": run.title, "model": model, "initial": initial, "time": {"t_max": t_max}, "simulation": simulation}


def _check(run: Run, source: str) -> None:
    network, algorithm, constraint = run.network, run.algorithm, run.network.make_constraint()
    refused = {
        f'[network] activation = "{SMOOTH_RELU}"': SMOOTH_RELU in (network.activation, network.teacher_activation),
        "[network] intercepts": bool(network.train_intercepts) or any(network.intercepts),
        f'[network] constraint = "{constraint.name}"': not constraint.one_pass,
        f'[problem] loss = "{run.problem.loss}"': run.problem.loss != "linear",
        f'[algorithm] kind = "{algorithm.kind}"': algorithm.kind not in LIKE_ONE_PASS,
        "[algorithm] temperature": np.any(np.asarray(algorithm.setting("temperature")) != 0.0),
        "[algorithm] momentum": algorithm.has_momentum,
        "[algorithm] learning_rate that changes": not algorithm.steady,
        "[algorithm] batch_fraction that changes": not isinstance(algorithm.batch_fraction, float),
        "[algorithm] rescale_gradient = false": not algorithm.rescale_gradient,
        "[problem] ridge that changes": not isinstance(run.problem.ridge, float),
        "[problem] ridge with a trained second layer": network.train > 0.0 and run.problem.ridge != 0.0,
    }  # fmt: skip
    for what, found in refused.items():
        if found:
            raise RunError(f"{source}: {what} has no counterpart in one pass here; take it out, or write a [model] for onepass")
