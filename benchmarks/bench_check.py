"""What `dmft check` and `sgd-sim check` say beforehand against the clock: six runs, on all cores of this machine or on its card.

Every run is made once before it is timed, cut short in time, or of a theory on a card in samples (its kernels follow from the
history), so that its loops are compiled. The machine should have nothing else to do.
python benchmarks/bench_check.py [--device gpu] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.common import GD, PERSISTENT, table  # noqa: E402
from dmft.core.parallel import world  # noqa: E402
from dmft.model.runfile import Run, parse_run  # noqa: E402
from dmft.running.cost import estimate  # noqa: E402


def network(units: int, t: float) -> str:
    start = [[0.3 if unit == direction else 0.1 for direction in range(units)] for unit in range(units)]
    return (f'[network]\nunits = {units}\ndirections = {units}\nactivation = "erf"\n[problem]\nalpha = 3.0\nm0 = {start}\n'
            f'[algorithm]\nlearning_rate = 0.05\nt_max = {t}\nkind = "gd"\n')


def one_unit(algorithm: str, t: float, eta: float = 0.01) -> str:
    return f"[problem]\nalpha = 3.0\nm0 = 0.2\n[algorithm]\nlearning_rate = {eta}\nt_max = {t}\n{algorithm}\n"


# name: (kind, run file)
ON_CPU = {
    "march, full history": ("theory", one_unit(GD, 4.0, 0.02) + '[theory]\nsamples = 8192\nreplicas = 4\nhistory = "full"\n'),
    "march, dyadic history": ("theory", one_unit(PERSISTENT, 20.0) + "[theory]\nsamples = 8192\nreplicas = 2\n"),
    "march, a random start": ("theory", one_unit(GD, 10.0).replace("m0 = 0.2", 'start = "random"')
                              + "[theory]\nsamples = 8192\nreplicas = 2\n"),
    "march, two units": ("theory", network(2, 5.0) + "[theory]\nsamples = 4096\nreplicas = 2\n"),
    "simulation, N = 1000": ("simulation", one_unit(PERSISTENT, 20.0) + "[simulation]\ndimension = 1000\ninstances = 8\n"),
    "simulation, N = 3000": ("simulation", one_unit(GD, 10.0) + "[simulation]\ndimension = 3000\ninstances = 2\n"),
}
ON_CARD = {
    "march, 8 x 4000": ("theory", one_unit(GD, 100.0) + "[theory]\nsamples = 4000\nreplicas = 8\n"),
    "march, 8 x 100 000": ("theory", one_unit(PERSISTENT, 20.0) + "[theory]\nsamples = 100000\nreplicas = 8\n"),
    "march, one of 400 000": ("theory", one_unit(GD, 20.0) + "[theory]\nsamples = 400000\nreplicas = 1\n"),
    "march, four units": ("theory", network(4, 10.0) + "[theory]\nsamples = 65536\nreplicas = 2\n"),
    "simulation, N = 1000": ("simulation", one_unit(PERSISTENT, 50.0) + "[simulation]\ndimension = 1000\ninstances = 500\n"),
    "simulation, N = 8000": ("simulation", one_unit(GD, 10.0) + "[simulation]\ndimension = 8000\ninstances = 16\n"),
}
PROGRAM = {"theory": ("dmft", "solve"), "simulation": ("sgd_sim", "run")}


def shorter(run: Run, kind: str) -> Run:
    """A short run that compiles the same."""
    if kind == "theory" and run.theory.device == "gpu":
        return run.replace({"theory.samples": max(run.theory.samples // 8, 4000), "theory.replicas": 1})
    return run.replace({"algorithm.t_max": run.algorithm.last_time / 20})


def measured(run: Run, kind: str, folder: Path) -> float:
    """Seconds by the clock from the command to its end."""
    file, module, command = folder / "run.toml", *PROGRAM[kind]
    file.write_text(run.to_toml())
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", module, command, str(file), "-o", str(folder / "out.h5"), "--force", "--quiet"],
                   check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="some of them alone")
    options = parser.parse_args()
    rows = []
    for name, (kind, text) in (ON_CPU if options.device == "cpu" else ON_CARD).items():
        if options.only and name not in options.only:
            continue
        run = parse_run(text).replace({f"{kind}.device": options.device})
        said = estimate(run, kind, 1, world().threads(), cards=1).seconds
        with tempfile.TemporaryDirectory() as folder:
            measured(shorter(run, kind), kind, Path(folder))
            took = measured(run, kind, Path(folder))
        rows.append([name, f"{said:.1f}", f"{took:.1f}", f"{said / took:.2f}"])
        print(*rows[-1], file=sys.stderr, flush=True)
    table("What check says and what it takes, seconds", ["run", "check", "clock", "ratio"], rows)


if __name__ == "__main__":
    main()
