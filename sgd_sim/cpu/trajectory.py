"""Steppers: instances while they are stepped. The worker (sgd_sim.instances) uses `step`, `finished`, `advance`, `post` alone."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dmft.model.data import data_of
from dmft.model.runfile import Run
from sgd_sim.cpu.dynamics import State, advance, make_noise, make_work
from sgd_sim.cpu.starts import start_weights
from sgd_sim.kernels.course import make_course, make_rule
from sgd_sim.landscape import make_landscape
from sgd_sim.states import NOT_STARTED, States


class Stepper(Protocol):
    """Some instances that are stepped together; `step` is the step that they have reached."""

    step: int

    @property
    def finished(self) -> bool:
        """True if nothing is left to step, because all have diverged."""

    def advance(self, last: int) -> None:
        """Go on to step `last`."""

    def post(self, states: States) -> None:
        """Copy where the instances stand into the states."""


class InstanceTrajectory:
    """One instance on its own landscape, from its start or from its saved state."""

    def __init__(self, run: Run, instance: int, states: States, threads: bool):
        simulation, problem = run.simulation, run.problem
        self.instance, self.threads = instance, threads
        self.landscape = make_landscape(simulation.seed, instance, simulation.dimension, problem.alpha, threads,
                                        simulation.precision, data_of(problem))
        self.work = make_work(self.landscape)
        samples = self.landscape.h0.size
        self.rule, self.course = make_rule(run), make_course(run, samples)
        self.noise = make_noise(simulation.seed, instance)
        self.record, self.curves = states.record, states.curves[instance].copy()
        self.step, self.diverged_at = int(states.step[instance]), int(states.diverged_at[instance])
        s = np.ones(samples, np.uint8)
        if self.step == NOT_STARTED:
            self.step = 0
            w = start_weights(problem, self.landscape, self.work, simulation.seed, instance, threads)
            before = w[:states.before.shape[1]].copy()
        else:
            w, before = states.w[instance].copy(), states.before[instance].copy()
            if states.s.shape[1]:
                s[:] = states.s[instance]
        self.state = State(w, s, states.b[instance:instance + 1].copy(), before)

    @property
    def finished(self) -> bool:
        """True if the instance has diverged."""
        return self.diverged_at >= 0

    def advance(self, last: int) -> None:
        """Go on to step `last`."""
        self.diverged_at = advance(self.landscape, self.rule, self.course, self.noise, self.state, self.work,
                                   self.step, last, self.record, self.curves, self.threads)
        self.step = last if self.diverged_at < 0 else self.diverged_at

    def post(self, states: States) -> None:
        """Copy step, weights and curves of the instance into the states."""
        i = self.instance
        states.step[i], states.diverged_at[i] = self.step, self.diverged_at
        states.w[i], states.curves[i], states.b[i] = self.state.w, self.curves, self.state.b[0]
        states.before[i] = self.state.before
        if states.s.shape[1]:
            states.s[i] = self.state.s


