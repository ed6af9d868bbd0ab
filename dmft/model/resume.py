"""What --resume may change between a stored run and a new one."""

from __future__ import annotations

from collections.abc import Iterable

from dmft.core.errors import RunError
from dmft.core.schema import to_toml_value
from dmft.model.runfile import Run, changes, parse_run

GROWABLE = {"theory": ("theory.replicas", "theory.target_error", "theory.max_sweeps", "algorithm.t_max"),
            "simulation": ("simulation.instances", "algorithm.t_max")}
# Keys whose change leaves the numbers of a result as they are (another device changes their rounding).
_HARMLESS = ("title", "theory.checkpoint_interval", "simulation.checkpoint_interval", "theory.device", "simulation.device",
             "theory.keep_state")


def grown(stored_run: str, new: Run, kind: str, source: str, growable: Iterable[str] | None = None) -> list[str]:
    """Keys that grew since the run of a "theory" or "simulation" file was stored; empty when nothing did.

    Any other change that matters to that kind of result is refused, with the difference shown. `growable`
    restricts the keys that may grow, for a checkpoint that cannot be extended in time, say.
    """
    old = parse_run(stored_run, source, any_loss=True)
    other = "simulation." if kind == "theory" else "theory."
    allowed = GROWABLE[kind] if growable is None else tuple(growable)
    heeded: tuple[str, ...] = ("theory.observables", "theory.snapshots")     # the simulator has them too
    if kind == "simulation" and new.simulation.kernels:     # what is kept of earlier steps is gone at the end
        allowed, heeded = ("simulation.instances",), (*heeded, "theory.waiting_times", "theory.kernel_points")
    found, refused = [], []
    for key, before, after in changes(old, new):
        if key in _HARMLESS or key.startswith(other) and key not in heeded:
            continue
        if key in allowed and (key == "theory.target_error" or after > before):
            found.append(key)
        else:
            hint = " (may only grow)" if key in allowed else ""
            refused.append(f"{key}: {_shown(before)} -> {_shown(after)}{hint}")
    if refused:
        raise RunError(f"{source}: --resume with another run is refused: {'; '.join(refused)}; "
                       "--force starts afresh, -o keeps both")
    return found


def _shown(value: object) -> str:
    return "unset" if value is None else to_toml_value(value)
