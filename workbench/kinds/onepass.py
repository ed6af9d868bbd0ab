"""Files of one-pass SGD: one path, or an ensemble."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import onepass
from dmft.core import schema, store
from dmft.core.checkpoint import ACTIVE, check_layout
from dmft.core.parts import INSTANCES
from dmft.files import layouts
from dmft.model.curves import components
from dmft.result.comparison import Curve
from onepass import ensemble, runfile
from workbench.inspection.kinds import FileKind, Opened

MOST_COMPONENTS = 64        # components of a statistic that are shown one by one


class OnePassFile(FileKind):
    """Statistics of the model, time first."""

    def read(self, header: store.Stored) -> Any:
        return _partial_ensemble(header) if header.is_checkpoint else onepass.load(header.path)

    def curves(self, result: Any) -> dict[str, Curve]:
        ensemble = hasattr(result, "instances")
        mean = result.mean().arrays if ensemble else result.arrays
        error = result.error().arrays if ensemble and result.instances > 1 else {}
        found: dict[str, Curve] = {}
        for name, array in mean.items():
            bars = error.get(name, np.full(array.shape, np.nan) if ensemble else np.zeros(array.shape))
            both = zip(components(name, array, 1, ()).items(), components(name, bars, 1, ()).values(), strict=True)
            found |= {label: Curve(result.t, value, bar, result.instances if ensemble else 1)
                      for (label, value), bar in islice(both, MOST_COMPONENTS)}
        return found

    def progress(self, opened: Opened) -> dict[str, Any]:
        return {"instances_done": opened.result.instances}

    def draw(self, opened: Opened, path: Path | None) -> Any:
        from workbench.plots import onepass as picture  # matplotlib is an extra
        text = opened.header.run_text       # none where a model was followed from Python
        told = schema.read_toml(text, str(opened.path)).get("title", "") if text else ""
        return picture.draw(self.curves(opened.result), f"{told}\n{opened.path.name}: {opened.result.source}".strip(), path)


def _partial_ensemble(header: store.Stored) -> Any:
    """The finished instances of a running one-pass job."""
    check_layout(header, layouts.CHECKPOINTS[header.kind])
    layouts.check(header)
    run = runfile.parse_run(header.run_text, str(header.path))
    place = f"{ACTIVE}/0/{INSTANCES}/own"
    arrays = store.load(header.path).arrays         # all arrays in one read, since the running job may replace the file
    flat, columns = arrays[f"{place}/flat"], arrays[f"{place}/columns"]
    ended = columns == flat.shape[1]
    return ensemble.assemble(run.model, run.time.grid(), flat[ended], run.simulation.process, {"asked": len(flat)})


KIND = OnePassFile()
