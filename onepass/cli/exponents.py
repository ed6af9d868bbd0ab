"""Exponents of a teacher, and the order in which SGD learns its directions.

TEACHER is a link by name (product, staircase, parity, hermite3, ..., or one that a plugin registers), or a run file of onepass.
Printed are the leaps with samples used once (information and leap exponent), and those with labels that may be transformed, as
SGD does that uses samples more than once (generative exponent). --check runs the exact chain of a network of ReLU units, with a
trained second layer from random signs, until it has learnt each direction.

examples:
  onepass exponents staircase --directions 3
  onepass exponents product --directions 2 --check 1000
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from dmft.core.command import EXIT_DONE, plugin_option, set_options
from dmft.core.errors import RunError
from dmft.core.parallel import world
from onepass import runfile
from onepass.gaussian import symmetric_root
from onepass.networks.exponents import Staircase, staircase
from onepass.networks.network import Network
from onepass.networks.scaling import learning_times

CHECK_UNITS, CHECK_INSTANCES, CHECK_TIME, CHECK_LEVEL = 6, 16, 40.0, 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("teacher", metavar="TEACHER", help="name of a link, or a run file")
    parser.add_argument("--directions", type=int, default=1, help="directions of a link (default 1)")
    parser.add_argument("--order", type=int, default=5, help="largest degree looked at (default 5)")
    parser.add_argument("--check", metavar="D", type=int, help="dimension of a check by the exact chain")
    plugin_option(parser)
    set_options(parser)


def run(options: argparse.Namespace) -> int:
    net = _network(options)
    once = world().from_root(lambda: staircase(net.labels_of_normals, net.teacher_width, options.order))
    turned = "" if net.teacher_overlaps is None else ", orthonormal: the teacher's vectors times teacher_overlaps^-1/2"
    lines = [f"{options.teacher}, {net.teacher_width} direction{'s' if net.teacher_width > 1 else ''}{turned}",
             f"information exponent {once.first}, leap exponent {once.leap}: samples used once", *_leaps(once)]
    again = world().from_root(lambda: staircase(net.labels_of_normals, net.teacher_width, options.order, transformed=True))
    lines += [f"generative exponent {again.first}, leap exponent {again.leap}: labels transformed", *_leaps(again)]
    if options.check:
        lines += _checked(net, once, options.check)
    if world().is_root:
        print(*lines, sep="\n")
    return EXIT_DONE


def _network(options: argparse.Namespace) -> Network:
    if options.directions < 1:
        raise RunError(f"--directions {options.directions}: must be a whole number >= 1")
    if not Path(options.teacher).suffix:
        return Network(link=options.teacher, teacher_width=options.directions)
    model = runfile.load_run(options.teacher, options.overrides).model
    if not isinstance(model, Network):
        raise RunError(f"{options.teacher}: exponents are those of a network's teacher, and this is a {type(model).__name__}")
    return model


def _leaps(found: Staircase) -> list[str]:
    lines = [f"  {i + 1}. {leap}" for i, leap in enumerate(found.leaps)]
    return lines + ([f"  {len(found.unseen)} of the directions not seen up to this order"] if len(found.unseen) else [])


def _checked(net: Network, found: Staircase, dimension: int) -> list[str]:
    """Times at which a network has learnt each direction, in the order of the leaps."""
    keys: dict[str, Any] = {"link": net.link}
    if net.link is None:
        keys = {"teacher_activation": net.pair[1], "teacher_weights": net.teacher_weights}
    keys["teacher_overlaps"] = net.teacher_overlaps
    student = Network("relu", CHECK_UNITS, net.teacher_width, 1.0, net.noise, "trained", **keys)
    directions = np.concatenate([leap.directions for leap in found.leaps]) @ np.linalg.pinv(symmetric_root(net.P), hermitian=True)
    times = learning_times(student, directions, dimension, CHECK_INSTANCES, CHECK_TIME, CHECK_LEVEL)
    lines = [f"exact chain, d = {dimension}, {CHECK_UNITS} ReLU units, {CHECK_INSTANCES} instances: time at which the overlap is "
             f"{CHECK_LEVEL:g}"]
    order = iter(times)
    for i, leap in enumerate(found.leaps):
        for _ in leap.directions:
            one = next(order)
            reached = f"t = {one.mean:.3g} +- {one.error:.1g}, {one.mean / student.time_step(dimension):.3g} steps"
            share = "" if one.share == 1.0 else f" ({100 * one.share:.0f} % of the instances by t = {CHECK_TIME:g})"
            lines.append(f"  leap {i + 1}: " + (reached if one.share else "not reached") + share)
    return lines
