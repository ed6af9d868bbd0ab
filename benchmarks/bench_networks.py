"""How long a step of a network takes with p = 1, 2, 4 units: persistent SGD at eta = 0.02, blocks of history (docs/networks.md).

    python benchmarks/bench_networks.py                      2048 samples, steps 300 to 320
    python benchmarks/bench_networks.py --samples 8192

Milliseconds are those of one core; a sixteenth of the samples, 512 at least, have tangents.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402

import dmft  # noqa: E402
from benchmarks.common import table  # noqa: E402
from dmft.committee.march import CommitteeMarch, committee_bytes  # noqa: E402
from dmft.core.parallel import Comm  # noqa: E402
from dmft.equations.kernels import Wanted  # noqa: E402
from dmft.model.experiment import Experiment  # noqa: E402
from dmft.samples.sampling import Sampling  # noqa: E402

FIRST, TIMED = 300, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2048)
    options = parser.parse_args()
    rows, first = [], 0.0
    for p in (1, 2, 4):
        m0 = [[0.3 if r == s else 0.1 for s in range(2)] for r in range(p)]
        run = dmft.Experiment(units=p, directions=2, m0=m0, alpha=3.0, kind="persistent_sgd", batch_fraction=0.5, persistence=1.0,
                              learning_rate=0.02, t_max=20.0)
        experiment = Experiment.from_run(run)
        assert experiment.network is not None
        sampling = Sampling(options.samples, 1, (0,), frozenset({"sobol", "ibp"}), 1 / 16)
        march = CommitteeMarch(experiment, sampling, 12, Wanted.plain(experiment.steps), Comm(), np.float32)
        for _ in range(FIRST):
            march.step()
        begin = time.process_time()
        for _ in range(TIMED):
            march.step()
        each = 1e3 * (time.process_time() - begin) / TIMED
        first = first or each
        held = committee_bytes(experiment.network, march.history, sampling, np.float32) / 1e6
        rows.append([str(p), str(march.history.slots), f"{each:.1f}", f"{each / first:.1f}", f"{held:.0f}"])
    table(f"networks, {options.samples} samples", ["units", "slots", "ms/step", "over p = 1", "MB"], rows)


if __name__ == "__main__":
    main()
