"""Many starts on one landscape on a GPU: the fields and the gradients of all of them are two matrix products a step.

Everything else is that of trajectories.py. A few starts are faster there, where a launch makes many steps; which way is taken
depends on the run alone, so that a start has the same numbers in any batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dmft.core.device import WARP, Gpu
from dmft.model.runfile import Run
from sgd_sim.gpu.layout import DRAW, PRODUCT, PRODUCT_TILE, STEP, CardLayout
from sgd_sim.gpu.networks import GpuNetworks
from sgd_sim.gpu.trajectories import RING, GpuTrajectories, card_layout
from sgd_sim.states import States

MANY = 48     # starts of a run from which products are faster


class GpuProducts(GpuTrajectories):
    """A batch of instances on one landscape."""

    passes = "products"

    def __init__(self, run: Run, instances: np.ndarray, states: States, gpu: Gpu, layout: CardLayout | None = None):
        apart = -(-(layout or card_layout(run)).samples // 4) * 4     # rows of whole vectors
        self.factors = (gpu.zeros((instances.size, apart), np.float32), np.int64(apart))
        super().__init__(run, instances, states, gpu, layout)

    def _pass(self, mode: int, step: int, rows: tuple, side: Any, going: Any, steps: int = 1) -> None:
        """As in trajectories.py; what comes out for instances that are not `going` is not used."""
        layout, count = self.layout, np.int32(self.instances.size)
        data, h0, _, number, fields = rows
        starts, columns, tall = (-(-size // PRODUCT_TILE) for size in (self.instances.size, layout.n, int(number)))
        chunks, threads = layout.chunks(int(number)), (PRODUCT_TILE * PRODUCT_TILE // WARP,)
        kernels = self.by_loss[self.loss_n[step]]
        for n in range(step, step + steps):
            kernels["fields_of_starts"]((tall, starts), threads, (
                np.int32(mode), np.int64(n), count, np.int32(RING), self.settings, self.lines, data, h0, number, fields, side,
                self.s, self.b, self.e, *self.factors), layout.tile_bytes)
            if mode & (DRAW | PRODUCT):
                kernels["gradients_of_starts"]((columns * chunks, starts), threads, (
                    count, data, number, *self.factors, self.partial, self.pushes), layout.tile_bytes)
            if mode & STEP:
                self._update(n, chunks)


def make_trajectories(run: Run, instances: np.ndarray, states: States, gpu: Gpu) -> GpuTrajectories:
    """A batch of instances of a run."""
    if run.has_network:
        return GpuNetworks(run, instances, states, gpu)
    many = run.simulation.landscape == "shared" and run.simulation.instances >= MANY
    return (GpuProducts if many else GpuTrajectories)(run, instances, states, gpu)
