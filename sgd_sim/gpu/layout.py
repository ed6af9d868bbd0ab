"""How the kernels of sgd_sim/gpu/cuda divide the work on an instance: by its size and precision alone, so that no number depends
on which other instances run.

Up to ONE_WARP columns a warp takes whole rows and holds its part of the gradient in registers; wider rows are
shared by all warps of a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dmft.core.cuda_numbers import defines, enum
from dmft.core.device import CUDA, WARP, source
from dmft.core.to_cuda import CudaFunctions
from dmft.files.layouts import SIMULATED_KERNELS
from dmft.model.constraints import Constraint, Sphere
from sgd_sim.kernels import fast_normals, formulas, minibatch
from sgd_sim.kernels.step_table import RunFlags
from sgd_sim.recording import BY_DATA, PAIR_GRADIENTS, PAIR_PROBES, PAIR_WEIGHTS, RECORDED

ONE_WARP = 1024
WIDEST = 16384
BLOCK_ROWS = 384            # rows of a block, about: its work before and after them is small in comparison
BLOCK_ROWS_HALF = 768       # the same number of bytes in float16
BLOCK_ROWS_WIDE = 128       # where all warps share a row: such large instances may be few, and must still occupy the card
PRODUCT_TILE, SLAB, STAGES = 64, 32, 2   # of the matrix products of products.cuh
SIMULATOR_KERNELS = ("fill_rows", "place_rows", "draw_rows", "draw_fixed_size", "update", "record", "power_step", "pair_weights",
                     "pair_gradients", "push")
PASSES = {"rows": ("pass_over_rows",), "products": ("fields_of_starts", "gradients_of_starts"),   # how data are passed over
          "units": ("pass_over_units", "fields_of_directions", "step_units", "record_units")}
SOURCES = ("common.cuh", "landscape.cuh", "minibatch.cuh")
ONE_UNIT = ("weights.cuh", "coefficient.cuh", "two_times.cuh")   # besides, unless passes are over units of a network
# Numbers of a step in its line on the card: what formulas.py makes of the rates, columns of a StepTable by their names.
CARD_SETTINGS = ("keep", "recoil", "lookahead", "rate", "eta", "noise", "scale", "enter", "switch_on", "switch_off")
# Modes of a pass: take the mini-batch; take the fields of all rows; see `factor_of`; step the weights afterwards.
DRAW, ALL, PRODUCT, STEP = 1, 2, 4, 8


@dataclass(frozen=True)
class CardLayout:
    """Constants that the kernels are compiled with; see sgd_sim/gpu/cuda/common.cuh."""

    n: int
    samples: int
    stride: int
    half: bool
    team: int
    warps: int
    vectors: int
    rows: int
    resident: int
    chunk: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return WARP * self.warps

    @property
    def stored(self) -> type:
        """The type of the data on the card."""
        return np.float16 if self.half else np.float32

    @property
    def padded(self) -> int:
        """Length of e and of a gradient, padded."""
        return WARP * self.team * self.vectors * (8 if self.half else 4)

    def chunks(self, rows: int) -> int:
        """Number of blocks for so many rows."""
        return -(-rows // self.chunk)

    @property
    def pass_bytes(self) -> int:
        """Shared memory of pass_over_rows."""
        room = 4 * self.warps * self.padded if self.team == 1 else 16 * (-(-self.rows * (self.team + 1) // 4))
        return max(room, 256) + 11 * self.chunk + 20

    def unit_bytes(self, units: int) -> int:
        """Shared memory of pass_over_units."""
        return 11 * self.chunk + 4 + self.rows * units * (8 + 4 * (self.team + 1))

    @property
    def tile_bytes(self) -> int:
        """Shared memory of a block of products.cuh."""
        return STAGES * SLAB * (4 * PRODUCT_TILE + np.dtype(self.stored).itemsize * (PRODUCT_TILE + 8))

    def code(self, loss: str, flags: RunFlags, constraint: Constraint, quantities: int, passes: str) -> str:
        """The CUDA source of all kernels, for the source of a loss; quantities: rows of a curves array; passes: one of PASSES."""
        numbers = {"N": self.n, "STRIDE": self.stride, "IN_HALVES": int(self.half), "TEAM": self.team, "WARPS": self.warps,
                   "VECTORS": self.vectors, "ROWS_HELD": self.rows, "RESIDENT": self.resident, "CHUNK": self.chunk,
                   "ANCHORED": int(flags.anchored), "INTERCEPT": int(flags.bias), "REMEMBERS": int(flags.remembers),
                   "LOOKS_AHEAD": int(flags.looks_ahead), "RESCALES": int(constraint.rescales),
                   "QUANTITIES": quantities, "LANES": WARP, "NORMALS": fast_normals.BLOCK,
                   "PRODUCTS": int(passes == "products"), "PRODUCT_TILE": PRODUCT_TILE, "SLAB": SLAB, "STAGES": STAGES}
        lines = [defines(numbers), _codes()]
        for name, values in (("LOG", fast_normals.LOG), ("SIN", fast_normals.SIN), ("COS", fast_normals.COS)):
            lines += [f"#define {name}{k} {float(value)!r}f" for k, value in enumerate(values)]
        names = *SOURCES, *(() if passes == "units" else ONE_UNIT), f"{passes}.cuh"
        files = [Path(__file__).parent / "cuda" / name for name in names]
        return "\n".join([*lines, source(CUDA / "philox.cuh"), loss, _formulas(flags, constraint), *map(source, files)])


def _codes() -> str:
    """Numbers that have names in Python: of mini-batches, modes of a pass, columns of a line of settings, rows of the curves."""
    batches = {name: getattr(minibatch, name) for name in ("BERNOULLI", "WITH_REPLACEMENT")}
    places = {**{name.upper(): k for k, name in enumerate(CARD_SETTINGS)}, "SETTINGS": len(CARD_SETTINGS)}
    rows = {f"{name.upper()}_ROW": k for k, name in enumerate(RECORDED + BY_DATA)}
    pairs = {"PAIR_WEIGHTS": PAIR_WEIGHTS, "PAIR_GRADIENTS": PAIR_GRADIENTS, "PAIR_PROBES": PAIR_PROBES,
             "PAIR_ROWS": len(SIMULATED_KERNELS)}
    return "\n".join(map(enum, (batches, {"DRAW": DRAW, "ALL": ALL, "PRODUCT": PRODUCT, "STEP": STEP}, places, rows, pairs)))


def _formulas(flags: RunFlags, constraint: Constraint) -> str:
    """The formulas of the CPU's loops in CUDA C++."""
    functions = CudaFunctions()
    for function in (formulas.field_at, formulas.coefficient, formulas.point_ahead, formulas.moved, formulas.pushed):
        functions.add(function)
    functions.add(formulas.miss, given={"flags": flags})
    for name, shape in (("rescaling", constraint), ("onto_sphere", Sphere())):
        functions.add(type(shape).scale, given={"self": shape}, name=name)
    words = dict.fromkeys(("word", "enter", "switch_on", "switch_off"), "word")
    return functions.add(minibatch.next_in, {"fresh": "bool", "s": "bool", **words}).text


def make_layout(n: int, samples: int, precision: str, units: int = 0) -> CardLayout:
    """The layout of instances of a size; units: of a network, whose rows are shared by all warps of a block always."""
    half = precision == "float16"
    width, sector = (8, 16) if half else (4, 8)      # numbers in 16 and in 32 bytes
    stride = -(-n // sector) * sector
    if units:
        team = warps = min(-(-stride // (width * WARP)), 8 if n <= WIDEST // 2 else 16)
        registers, height = 32, BLOCK_ROWS_WIDE
    elif n <= ONE_WARP:
        team, warps, registers, height = 1, 8, 64, BLOCK_ROWS_HALF if half else BLOCK_ROWS
    else:
        team = warps = 8 if n <= WIDEST // 2 else 16
        registers, height = 48, BLOCK_ROWS_WIDE
    vectors = -(-stride // (width * WARP * team))
    rows = 1
    while rows < 8 and 2 * rows * vectors * width <= registers and 2 * rows * units <= WARP:
        rows *= 2
    chunk = -(-samples // (-(-samples // height) * 4)) * 4
    resident = (2 if warps <= 8 else 1) if units * vectors * width <= 32 else 1
    return CardLayout(n, samples, stride, half, team, warps, vectors, rows, resident if units else 2 if warps == 8 else 1, chunk)
