"""Noise that lasts finds the teacher

Phase retrieval at α = 3 from overlap 0.2, learning rate 0.01: gradient descent, SGD and persistent SGD with mini-batches
of half the data. Lines: the theory for infinite dimension with bands of two standard errors. Points: simulations with two
standard errors, 500 runs at N = 1000 (pale) and 48 or 96 at N = 4000 (white). Inset: the share of runs that have found the teacher,
solid at N = 1000 and dashed at N = 4000. Drawn from the numbers in `docs/numbers`, which `make reproduce` makes on one card.
"""

import json
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

numbers = Path(__file__).parents[1] / "numbers"
figure = Figure(figsize=(7.4, 4.6))
axes = figure.subplots()
inset = axes.inset_axes((0.085, 0.6, 0.33, 0.33))
names = {"gd": "gradient descent", "sgd": "SGD, mini-batches of half the data", "persistent_sgd": "persistent SGD, τ = 1"}


def read(name):
    file = numbers / f"{name}.json"
    return json.loads(file.read_text()) if file.exists() else None


for number, (kind, name) in enumerate(names.items()):
    colour = f"C{number}"
    theory = read(f"fig2/{kind}.theory")
    if theory:
        t, mean, error = (np.array(x) for x in (theory["t"], theory["curves"]["m"]["mean"], theory["curves"]["m"]["error"]))
        if t[-1] < 1000 and mean[-1] > 0.9999:      # m = 1 is never left again
            t, mean, error = np.append(t, 1000.0), np.append(mean, mean[-1]), np.append(error, error[-1])
        axes.plot(t[1:], mean[1:], color=colour, lw=1.8, label=name)
        axes.fill_between(t[1:], (mean - 2 * error)[1:], (mean + 2 * error)[1:], color=colour, alpha=0.3, lw=0)
    for file, face, line in ((f"fig2/{kind}", colour, "-"), (f"headline/{kind}_N4000", "white", "--")):
        sim = read(f"{file}.simulation")
        if sim is None:
            continue
        t, mean, error = (np.array(x) for x in (sim["t"], sim["curves"]["m"]["mean"], sim["curves"]["m"]["error"]))
        late = np.arange(1 + 2 * number + (3 if face == "white" else 0), len(t), 6)  # others for each, so that none hides another
        axes.errorbar(t[late], mean[late], 2 * error[late], fmt="o^s"[number], ms=4, lw=1, color=colour, mfc=face,
                      alpha=0.5 if face == colour else 1.0)
        share = 100 * np.array(sim["solved"]) / sim["instances"]
        inset.plot(np.append(t[1:], 1000.0), np.append(share[1:], share[-1]), line, color=colour, lw=1.2)
axes.plot([], [], "o", color="0.5", alpha=0.5, ms=4, label="simulation, N = 1000")
axes.plot([], [], "o", color="0.5", mfc="white", ms=4, label="simulation, N = 4000")
axes.set(xscale="log", xlabel="t", ylabel="overlap m with the teacher", xlim=(0.01, 1300), ylim=(0.15, 1.45))
axes.set_yticks([0.2, 0.4, 0.6, 0.8, 1.0])
axes.legend(loc="upper right", fontsize=8)
inset.set(xscale="log", xlim=(3, 1000), ylim=(-3, 103), yticks=[0, 50, 100])
inset.set_ylabel("solved, %", fontsize=8)
inset.tick_params(labelsize=7)
