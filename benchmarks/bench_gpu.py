"""The simulator on a GPU: step times of figure 2 at the paper's size against the bandwidth of the same card.

    python benchmarks/bench_gpu.py [--instances 500] [--steps 400] [--layouts] [--starts]

N = 1000, alpha = 3: 12 MB of float32 an instance. The bandwidth is that of a kernel that only reads the same array. A step
of gradient descent reads all data once; persistent SGD at l = 0.5 half of them. Times are those of whole steps, launches
and updates included, from a clock that waits for the card; --layouts tries other ways to divide the work. On a shared landscape
the two matrix products of a step have 4 N M floating-point operations a start; --starts takes few and many starts both ways.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
from bench_simulator import PERSISTENT, RUN

from dmft.core.device import gpu
from dmft.core.errors import UserError
from dmft.model.runfile import parse_run
from sgd_sim.gpu.products import GpuProducts, make_trajectories
from sgd_sim.gpu.trajectories import GpuTrajectories, card_layout
from sgd_sim.states import empty_states

KINDS = {
    "gd": {},
    "sgd, bernoulli": {"kind": "sgd", "batch_fraction": 0.5},
    "sgd, with_replacement": {"kind": "sgd", "batch_fraction": 0.5, "minibatch": "with_replacement"},
    "sgd, without_replacement": {"kind": "sgd", "batch_fraction": 0.5, "minibatch": "without_replacement"},
    "persistent_sgd": PERSISTENT,
    "langevin": {"kind": "langevin", "temperature": 0.5},
    "gd, shared landscape": {"landscape": "shared"},
    "persistent_sgd, shared landscape": {"landscape": "shared", **PERSISTENT},
}
STARTS = (4, 8, 16, 32, 64, 128, 500)
LAYOUTS = [{"chunk": 376}, {"chunk": 752}, {"chunk": 1000}, {"warps": 8, "resident": 2}, {"warps": 4, "resident": 4},
           {"warps": 16, "resident": 1}]
READ = """
struct __align__(16) Vector { unsigned x, y, z, w; };
extern "C" __global__ void read(const Vector *data, long long count, unsigned *out) {
    unsigned sum = 0;
    long long stride = (long long)gridDim.x * blockDim.x, i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 7 * stride < count; i += 8 * stride) {
        Vector v[8];
#pragma unroll
        for (int k = 0; k < 8; k++)
            asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v[k].x), "=r"(v[k].y), "=r"(v[k].z), "=r"(v[k].w) : "l"(data + i + k * stride));
#pragma unroll
        for (int k = 0; k < 8; k++) sum += v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
    if (sum == 12345u) *out = sum;
}
"""


def bandwidth(card, array, rounds: int = 20) -> float:
    """Bytes per second of reading an array, the best of some numbers of blocks."""
    read, out, best = card.kernels(READ, ["read"])["read"], card.zeros(1, np.uint32), 0.0
    for blocks in (132 * 4, 132 * 8, 132 * 16, 132 * 64):
        for _ in range(rounds + 1):
            begin = time.perf_counter()
            read((blocks,), (256,), (array, np.int64(array.nbytes // 16), out), 0)
            card.wait()
            best = max(best, array.nbytes / (time.perf_counter() - begin))
    return best


def step_seconds(stepper: GpuTrajectories, steps: int) -> float:
    """Time of a step: the median of three slices."""
    stepper.advance(stepper.step + 20)
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        stepper.advance(stepper.step + steps)
        times.append((time.perf_counter() - begin) / steps)
    return sorted(times)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--instances", type=int, default=500)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--layouts", action="store_true")
    parser.add_argument("--starts", action="store_true")
    options = parser.parse_args()
    try:
        card, rate = gpu("simulation"), 0.0
    except UserError as error:
        return print(f"left out: {error}")
    run = parse_run(RUN).replace(instances=options.instances)
    print(f"{card.name}: N = 1000, M = 3000, {options.instances} instances")
    for precision in ("float32", "float16"):
        for kind, changes in KINDS.items():
            this = run.replace({"simulation.precision": precision, **changes})
            begin = time.perf_counter()
            stepper = make_trajectories(this, np.arange(options.instances), empty_states(this), card)
            card.wait()
            made = time.perf_counter() - begin
            if not rate:
                rate = bandwidth(card, stepper.data[0])
                print(f"read bandwidth {rate / 1e12:.3f} TB/s\n\n| data | algorithm | us a step | of the bandwidth | 100 000 steps "
                      "| to make |\n|---|---|---|---|---|---|")
            seconds = step_seconds(stepper, options.steps)
            share = this.algorithm.batch_fraction if "with_" not in kind else 1.0 - np.exp(-0.5)
            used = f"{100 * stepper.data[0].nbytes * share / rate / seconds:.0f} %"
            if "shared" in kind:
                used = f"{4e-12 * options.instances * this.simulation.dimension * stepper.layout.samples / seconds:.0f} TFLOP/s"
            print(f"| {precision} | {kind} | {1e6 * seconds:.0f} | {used} | {1e5 * seconds:.1f} s | {made:.2f} s |", flush=True)
            del stepper
        for count in STARTS if options.starts else []:
            this = run.replace({"simulation.precision": precision, "landscape": "shared", "instances": count})
            times = [1e6 * step_seconds(kind(this, np.arange(count), empty_states(this), card), options.steps)
                     for kind in (GpuTrajectories, GpuProducts)]
            print(f"  {precision} {count} starts: {times[0]:.0f} us by rows, {times[1]:.0f} us by products", flush=True)
        for changes in LAYOUTS if options.layouts else []:
            this = run.replace({"simulation.precision": precision, **PERSISTENT})
            layout = replace(card_layout(this), **changes)
            try:
                stepper = GpuTrajectories(this, np.arange(options.instances), empty_states(this), card, layout)
                seconds = step_seconds(stepper, options.steps)
                print(f"  {precision} {changes}: {1e6 * seconds:.0f} us, {50 * stepper.data[0].nbytes / rate / seconds:.1f} %",
                      flush=True)
                del stepper
            except Exception as error:   # noqa: BLE001 - a layout that the card does not take
                print(f"  {precision} {changes}: {type(error).__name__} {str(error)[:200]}", flush=True)


if __name__ == "__main__":
    main()
