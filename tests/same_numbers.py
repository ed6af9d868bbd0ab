"""Keep the numbers of tiny runs of everything, and see after a rebuild whether they are still the same.

    python tests/same_numbers.py keep FILE.npz                         before
    python tests/same_numbers.py compare FILE.npz [--tolerance 1e-12]  after: every case with "same bits", or the largest
                                                                       difference and where it is
    python tests/same_numbers.py compare FILE.npz --only card          cases whose name contains the word; may be repeated

A difference is counted in units of the largest number of its array. Arrays that are new are told and change nothing; arrays or
cases that are gone, other shapes, and numbers that came or went (NaN) are differences. Exit code 1 for those beyond the tolerance.
The bits are those of one machine: a compiler or processor of another kind may round elsewhere.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.number_cases import CASES, Arrays  # noqa: E402

BETWEEN = " | "     # case and array in the names of a file


def computed(only: list[str]) -> dict[str, Arrays]:
    """The arrays of every case whose name contains one of the words (all, without any)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # so few samples and sweeps are told of, time and again
        return {name: compute() for name, compute in CASES.items() if not only or any(word in name for word in only)}


def keep(path: Path, cases: dict[str, Arrays]) -> None:
    np.savez_compressed(path, allow_pickle=False, **{f"{case}{BETWEEN}{name}": array for case, arrays in cases.items()
                                                     for name, array in arrays.items()})


def kept(path: Path) -> dict[str, Arrays]:
    cases: dict[str, Arrays] = {}
    with np.load(path, allow_pickle=False) as stored:
        for key in stored.files:
            case, _, name = key.partition(BETWEEN)
            cases.setdefault(case, {})[name] = stored[key]
    return cases


def difference(old: np.ndarray, new: np.ndarray) -> tuple[float, str]:
    """The largest difference over the largest number of `old`, and its place; inf where the arrays cannot be compared."""
    if old.shape != new.shape or old.dtype != new.dtype:
        return np.inf, f": {old.dtype}{list(old.shape)} became {new.dtype}{list(new.shape)}"
    if old.tobytes() == new.tobytes():
        return 0.0, ""
    if old.dtype.kind not in "fc":
        return np.inf, str(np.argwhere(old != new)[0].tolist())
    came = np.isfinite(old) != np.isfinite(new)
    if came.any():
        return np.inf, f"{np.argwhere(came)[0].tolist()}: finite in one of them alone"
    finite = np.isfinite(old)
    apart = np.where(finite, np.abs(np.where(finite, new, 0) - np.where(finite, old, 0)), 0)
    scale = np.abs(old[finite]).max(initial=0.0) or 1.0
    place = np.unravel_index(apart.argmax(), apart.shape)
    return float(apart[place] / scale), str([int(k) for k in place])


def compare(old: Arrays, new: Arrays) -> tuple[float, str]:
    """The largest difference of a case, and the line that tells of it."""
    worst, line = 0.0, "same bits"
    for name, array in old.items():
        size, place = difference(array, new[name]) if name in new else (np.inf, " is gone")
        if place and size >= worst:
            worst, line = size, f"{size:.1e} in {name}{place}"
    more = sorted(set(new) - set(old))
    return worst, line + (f" (new: {', '.join(more)})" if more else "")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["keep", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", action="append", default=[], metavar="WORD")
    parser.add_argument("--tolerance", type=float, default=0.0)
    asked = parser.parse_args(arguments)
    began, cases = time.perf_counter(), computed(asked.only)
    seconds = time.perf_counter() - began
    if asked.action == "keep":
        keep(asked.file, cases)
        print(f"{len(cases)} cases, {sum(map(len, cases.values()))} arrays in {asked.file} ({seconds:.0f} s)")
        return 0
    before = {name: arrays for name, arrays in kept(asked.file).items() if name in cases or not asked.only}
    differ = 0
    for name in [*before, *(name for name in cases if name not in before)]:
        if name not in before:
            print(f"{name}: new, nothing to compare with")
            continue
        worst, line = compare(before[name], cases[name]) if name in cases else (np.inf, "this case is gone")
        differ += worst > asked.tolerance
        print(f"{name}: {line}")
    print(f"{differ} of {len(before)} cases differ by more than {asked.tolerance:g} ({seconds:.0f} s)")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
