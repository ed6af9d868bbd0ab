"""The result files of a folder as the rows of a scan, and its table in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import sgd_sim
from dmft.core import store
from dmft.core.averages import mean_and_error
from dmft.core.errors import FileError
from dmft.files import layouts
from dmft.model.runfile import parse_run
from dmft.result.statistics import averaged
from workbench.scans.scan import SCANNED_KINDS, Scan, ScanRow, value_of


def gathered(folder: Path, threshold: float) -> list[ScanRow]:
    """The results of theories and simulations below a folder."""
    if not folder.is_dir():
        raise FileError(f"{folder}: not a folder; name the one that holds the result files of a scan")
    rows = [row for path in sorted(folder.rglob("*.h5")) if (row := _row(path, threshold))]
    if not rows:
        raise FileError(f"{folder}: no result of a theory or simulation in it; name the folder of a scan")
    return rows


def unfinished(folder: Path) -> list[Path]:
    """Results that have a checkpoint only."""
    return [path.with_suffix("") for path in sorted(folder.rglob("*.checkpoint")) if not path.with_suffix("").exists()]


def _row(path: Path, threshold: float) -> ScanRow | None:
    """A result as a row of the table; None for files of other kinds."""
    header = store.load_header(path)
    if header.kind not in SCANNED_KINDS:
        return None
    experiment = parse_run(header.run_text, str(path), any_loss=True)
    layouts.check(header)
    if header.kind == "theory":
        t, m, m_error, loss, loss_error = (store.read(path, name) for name in ("t", "m", "m_error", "loss", "loss_error"))
        if experiment.has_network:
            chosen = averaged(str(header.attrs["outcomes"]).split(","))
            m, m_error = mean_and_error(overlap_size(store.read(path, "replicas/m"))[chosen])
        return ScanRow(path, "theory", experiment, header.shapes["replicas/m"][0], t, m, m_error, loss, loss_error,
                       diverged="diverged" in str(header.attrs.get("outcomes", header.attrs.get("outcome", ""))))
    result = sgd_sim.load(path)
    mean, error, share = result.mean(), result.error(), result.share_below(threshold)
    m, m_error = mean_and_error(overlap_size(result.m)) if experiment.has_network else (mean.m, error.m)
    return ScanRow(path, "simulation", experiment, result.instances, result.t, m, m_error, mean.loss, error.loss,
                   share.share, share.low, share.high, bool(result.diverged.any()))


def overlap_size(m: np.ndarray) -> np.ndarray:
    """What tables hold of the overlaps (.., unit, direction) of a network: the root mean square over units of the length of their
    part along the directions, |m| of a single unit."""
    return np.sqrt((m**2).sum(axis=-1).mean(axis=-1))


def table_lines(scan: Scan) -> list[str]:
    """The table for a terminal."""
    keys = list(scan.parameters)
    names = [key.partition(".")[2] for key in keys]
    heads = ["kind", *names, *(f"m({time:g})" for time in scan.times)]
    shares = np.isfinite(scan.arrays["share"]).any()
    if shares:
        heads += [f"loss < {scan.threshold:g} at {time:g}" for time in scan.times]
    lines = [heads]
    for i, row in enumerate(scan.rows):
        line = [row.kind, *("" if (value := value_of(row, key)) is None else str(value) for key in keys)]
        line += ["diverged" if np.isnan(m) else f"{m:.5f}" + (f" +- {error:.1g}" if np.isfinite(error) else "")
                 for m, error in zip(scan.overlaps[i], scan.arrays["m_error"][i])]
        if shares:
            line += ["" if np.isnan(share) else f"{100 * share:.1f} % ({100 * low:.1f} to {100 * high:.1f})" for share, low, high
                     in zip(*(scan.arrays[name][i] for name in ("share", "share_low", "share_high")))]
        lines.append(line)
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return ["  ".join(word.rjust(width) for word, width in zip(line, widths)) for line in lines]
