"""A scan read back from its file: parameters and curves at a few times, without the result files that it was gathered from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from dmft.core import store
from dmft.core.errors import FileError
from dmft.core.schema import to_toml_value
from dmft.files import layouts
from dmft.model.runfile import parse_run
from workbench.scans.scan import SCAN_CURVES, SCAN_SHARES, Scan, ScanRow


def load_scan(path: str | Path) -> Scan:
    """Read what `dmft collect` wrote. Rows know their parameters; their curves in time are not in the file."""
    stored = store.load(path)
    if stored.kind != "sweep":
        raise FileError(f"{path}: a {stored.kind} file, not a scan of parameters")
    layouts.check(stored)
    others = json.loads(stored.attrs["other_parameters"])
    parameters = {}
    for key in json.loads(stored.attrs["keys"]):
        numbers = stored.arrays.get(f"parameters/{key}")
        parameters[key] = others[key] if numbers is None else [None if np.isnan(x) else x for x in numbers.tolist()]
    nothing = np.zeros(0)
    rows = []
    for i, (file, simulated) in enumerate(zip(json.loads(stored.attrs["files"]), stored.arrays["is_simulation"])):
        mine = {key: _whole(values[i]) for key, values in parameters.items() if values[i] is not None}
        settings = [f"{key}={to_toml_value(value)}" for key, value in mine.items()]
        run = parse_run(stored.run_text, str(path), settings, any_loss=True)
        rows.append(ScanRow(Path(file), "simulation" if simulated else "theory", run, int(stored.arrays["count"][i]),
                        nothing, nothing, nothing, nothing, nothing))
    arrays = {name: stored.arrays[name] for name in (*SCAN_CURVES, *SCAN_SHARES)}
    return Scan(rows, stored.arrays["times"], float(stored.attrs["threshold"]), parameters, arrays)


def _whole(value: object) -> object:
    """Whole numbers come back from the file as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
