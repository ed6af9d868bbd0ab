"""Speed of onepass: right-hand side of the ODE, direct SGD against the memory of the machine, the exact chain.

    python benchmarks/bench_onepass.py [--rounds 20]

Everything is measured in turn, in rounds, in CPU time of the process; the best round of each counts,
since other work on the machine can only slow a measurement down.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import argparse
import time

import numpy as np
from numba import njit

from onepass import Committee, QuadraticNetwork

D, P = 10_000, 5


def seconds(work, repeats: int) -> float:
    begin = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - begin) / repeats


def naive_drift(s: dict[str, np.ndarray], gamma: float, k: int) -> tuple[np.ndarray, np.ndarray]:
    """dM and dQ of a noiseless quadratic network by a double loop over their entries, NumPy inside."""
    q, m = s["Q"], s["M"]
    p = len(q)
    om = np.block([[q, m], [m.T, np.eye(k)]])
    c = np.array([-1.0 / p] * p + [1.0 / k] * k)
    dm, dq = np.zeros((p, k)), np.zeros((p, p))
    t1, t2 = c @ np.diagonal(om), c @ om**2 @ c
    for i in range(p):
        left = om[i] * c
        for j in range(p + k):
            g1 = left @ om[:, j]
            e1 = t1 * om[i, j] + 2.0 * g1
            if j >= p:
                dm[i, j - p] = 2.0 * e1
                continue
            g2 = left @ om @ (c * om[:, j])
            dq[i, j] = 4.0 * e1 + 4.0 * gamma / p * ((t1 * t1 + 2.0 * t2) * om[i, j] + 4.0 * t1 * g1 + 8.0 * g2)
    return dm, dq


@njit(fastmath={"contract", "reassoc"})
def triad(a, b, c):
    for i in range(a.size):
        a[i] = b[i] + 0.3 * c[i]


@njit(fastmath={"contract", "reassoc"})
def sweep(w, x):
    for j in range(w.shape[0]):
        for i in range(w.shape[1]):
            w[j, i] += 1e-9 * x[i]


def random_state(net, d: int = 10**6) -> dict[str, np.ndarray]:
    return {name: v if name == "a" else v[0] for name, v in net.random_start(d, 1).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds

    net = QuadraticNetwork(50, 5, 1.0)
    state = random_state(net)
    x = net.start(state)
    erf = Committee("erf", 50, 5, 1.0)
    y = erf.start(random_state(erf))
    others = {name: Committee(name, 4, 2, 1.0) for name in ("relu", "tanh")}
    starts = {name: other.start(random_state(other)) for name, other in others.items()}
    reference = net.layout.unpack(net.drift(x))
    naive = seconds(lambda: naive_drift(state, net.gamma, 5), 3)
    dm, dq = naive_drift(state, net.gamma, 5)
    np.testing.assert_allclose(dm, reference["M"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(dq, reference["Q"], rtol=1e-9, atol=1e-12)

    wide = QuadraticNetwork(P, 1, 0.5)
    sgd = wide.sgd_process(wide.start(random_state(wide)), D, 1, 0)
    sgd.advance(10)
    big = [np.ones(8 * 2**20) for _ in range(3)]  # 64 MiB each, larger than the caches
    w, one = np.ones((P, D)), np.ones(D)
    triad(*big)
    sweep(w, one)
    small = QuadraticNetwork(3, 1, 0.3, constraint="sphere")
    chains = {d: small.chain_process(small.start(random_state(small)), d, 1, 0) for d in (10**3, 10**6, 10**9)}
    erf.drift(y)
    for name, other in others.items():
        other.drift(starts[name])
    best: dict[str, float] = {}

    def keep(name: str, value: float) -> None:
        best[name] = min(value, best.get(name, np.inf))

    for chain in chains.values():
        chain.advance(10)
    for _ in range(rounds):
        keep("matrix", seconds(lambda: net.drift(x), 20))
        keep("erf", seconds(lambda: erf.drift(y), 1))
        for name, other in others.items():
            keep(name, seconds(lambda other=other, name=name: other.drift(starts[name]), 1))
        keep("sgd", seconds(lambda: sgd.advance(100), 1) / 100)
        keep("triad", seconds(lambda: triad(*big), 1))
        keep("sweep", seconds(lambda: sweep(w, one), 20))
        for d, chain in chains.items():
            keep(f"chain {d}", seconds(lambda chain=chain: chain.advance(10_000), 1) / 10_000)

    moved = (2 * P + 1) * D * 8  # weights in and out, teacher in; the sample is made on the way
    memory = 3 * big[0].nbytes / best["triad"]
    cache = 2 * w.nbytes / best["sweep"]
    print(f"ODE right-hand side, p = 50, k = 5: {1e6 * best['matrix']:.0f} us; double loop over the entries {1e3 * naive:.0f} ms: "
          f"{naive / best['matrix']:.0f} times (wanted: 50)")  # fmt: skip
    print(f"the same for erf, closed form: {1e3 * best['erf']:.1f} ms")
    print(f"p = 4, k = 2: relu, closed form: {1e3 * best['relu']:.2f} ms; tanh, four fields at a time: {1e3 * best['tanh']:.0f} ms")
    print(f"direct SGD, d = {D}, p = {P}: {1e6 * best['sgd']:.1f} us a step, {moved / best['sgd'] / 1e9:.1f} GB/s of weights")
    share = 100 * moved / best["sgd"]
    print(f"  memory (triad, 64 MiB arrays) {memory / 1e9:.1f} GB/s: {share / memory:.0f} % of its limit (wanted: 60)")
    print(f"  cache (update of the same weights) {cache / 1e9:.1f} GB/s: {share / cache:.0f} % of its limit")
    for d, chain in chains.items():
        assert np.isfinite(chain.flat()).all()
        print(f"exact chain, p = 3, d = {d:.0e}: {1 / best[f'chain {d}']:.3g} steps/s (wanted: 1e5)")


if __name__ == "__main__":
    main()
