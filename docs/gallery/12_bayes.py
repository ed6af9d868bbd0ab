"""Against the best possible

Classification with a tenth of the labels flipped: the error of ridge logistic regression when gradient descent has
ended, and that of Bayes-optimal learning on the same data, against the number of samples per dimension. Both from
static equations: no sampling at all.
"""

import numpy as np
from matplotlib.figure import Figure

import dmft

run = dmft.parse_run("""
[problem]
alpha = 2.0
labels = "sign"
flip = 0.1
loss = "logistic"
m0 = 0.0
constraint = "ridge"
ridge = 0.1
[algorithm]
kind = "gd"
learning_rate = 0.1
t_max = 1.0
""")
ratios = np.geomspace(0.5, 20.0, 8)
figure = Figure(figsize=(6.5, 4.2))
axes = figure.subplots()
for number, ridge in enumerate((0.03, 0.3, 3.0)):
    errors = [dmft.fixed_point(run.replace(alpha=alpha, ridge=ridge)).errors["error"] for alpha in ratios]
    axes.loglog(ratios, errors, "o-", ms=4, color=f"C{number}", label=f"logistic, ridge {ridge:g}")
best = [dmft.bayes(run.replace(alpha=alpha)).errors["error"] for alpha in ratios]
axes.loglog(ratios, best, "k--", label="Bayes-optimal")
axes.set(xlabel="α, samples per dimension", ylabel="error on new samples")
axes.legend()
