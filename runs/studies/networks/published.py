"""The published two-layer case with relu, against the data that its authors ship, and against their own numerical solution.

p = k = 2, relu, labels tanh(kappa_1 + He_3(kappa_2)), gradient descent, six steps from m0 = 0. Their simulation (N = 5000, 32 runs)
tells m and C(t,t); their solution has m to about 1 %, with a noise that is not correlated in time and a response without the delta
function of relu. Here the identity gives the response.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import dmft
from dmft.core.parallel import world
from workbench.plots.style import BAND, BLACK, BLUE, GREEN, ORANGE, new_figure, save

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from options import read_options  # noqa: E402

RUNS = Path(__file__).resolve().parents[2] / "networks"


def main() -> None:
    options = read_options(__doc__, "4096 samples: half a minute")
    run, mark = dmft.load_run(RUNS / "published.toml"), ""
    if options.quick:
        run, mark = run.replace(samples=4096, replicas=4), "-quick"
    theory = dmft.solve(run, output=options.output / f"network-published{mark}.theory.h5", resume=True)
    if not world().is_root:
        return
    data = json.loads((RUNS / "published.json").read_text())
    shipped, solved = {name: np.array(values) for name, values in data["simulation"].items()}, np.array(data["dmft"]["m"])
    figure = new_figure(11.0, 4.4)
    left, right = figure.subplots(1, 2)
    steps, worst = np.arange(theory.t.size), []
    for name, axis, parts in (("m", left, ((0, 0), (0, 1), (1, 0), (1, 1))), ("C", right, ((0, 0), (0, 1), (1, 1)))):
        for (r, q), color in zip(parts, (BLUE, ORANGE, GREEN, BLACK)):
            ours, bar = theory.curves[name][:, r, q], theory.curves[f"{name}_error"][:, r, q]
            theirs, error = shipped[name][:, r, q], shipped[f"{name}_error"][:, r, q]
            axis.plot(steps, ours, color=color, label=f"{name}[{r},{q}]")
            axis.errorbar(steps, theirs, BAND * error, fmt="o", ms=4, color=color)
            z = (ours - theirs)[1:] / np.hypot(bar, error)[1:]
            worst.append(z)
            print(f"{name}[{r},{q}]  here " + " ".join(f"{x:8.4f}({1e4 * e:.0f})" for x, e in zip(ours[1:], bar[1:]))
                  + "   shipped " + " ".join(f"{x:8.4f}({1e4 * e:.0f})" for x, e in zip(theirs[1:], error[1:]))
                  + f"   max |z| {np.abs(z).max():.1f}")
            if name == "m":
                axis.plot(steps, solved[:, r, q], color=color, linestyle=":")
        axis.set_xlabel("step")
        axis.legend(fontsize="small", title="lines: here; points: shipped simulation"
                    + ("\ndotted: shipped solution" if name == "m" else ""), title_fontsize="small")
    left.set_ylabel("overlaps $m$")
    right.set_ylabel("$C(t,t)$")
    save(figure, options.output / f"network-published{mark}.png")
    z = np.concatenate(worst)
    off = np.abs(solved - theory.m)[1:].max() / np.abs(theory.m).max()
    print(f"{z.size} numbers: rms z {np.sqrt(np.mean(z**2)):.2f}, largest {np.abs(z).max():.1f}; the shipped solution is off in m "
          f"by up to {100 * off:.1f} %; delta_nu(0)[0,0] = {theory.delta_nu[0, 0, 0]:.4f}, exact {3 * (0.25 - 0.25 / np.pi):.4f}")
    print(f"picture: {options.output / f'network-published{mark}.png'}")


if __name__ == "__main__":
    main()
