"""The kernel table of `dmft figure validation`, from results and from numbers that were kept of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

import dmft
import sgd_sim
from dmft.core.shipped import run_file
from dmft.model.runfile import load_run
from reproduction.paper import kernel_validation as validation
from reproduction.paper import numbers
from reproduction.paper.computations import Data
from reproduction.paper.scale import scaled
from reproduction.paper.validation import VALIDATION


@pytest.mark.long
@pytest.mark.statistical
def test_the_table_of_kernels(tmp_path):
    """Persistent SGD to t = 2 at small sizes agrees; twin: another power of C disagrees. Kept numbers give the same."""
    run = load_run(run_file("validation/persistent_sgd_alpha2.toml")).replace(loss="normalised_phase_retrieval")
    sizes = validation.kernel_sizes(512, 4, (24, 24, 24))
    kind, data = "persistent_sgd", {}
    for name, changes in sizes.items():
        if not name.startswith(f"kernels_{kind}"):
            continue
        changed = run.replace({**changes, "algorithm.learning_rate": 0.05})
        if "_N" in name:
            small = changed.replace(dimension=changed.simulation.dimension // 5)
            found, half = numbers.Runs.of(sgd_sim.simulate(small)), "simulation"
        else:
            found, half = numbers.Lines.of(dmft.solve(changed)), "theory"
        numbers.keep(tmp_path / f"{name}.json", found)
        series = next(one for one in VALIDATION.series if one.name == name)
        again = numbers.kept(tmp_path / f"{name}.json", half)
        data[name] = [Data(series, **{"simulation": None, "theory": None, half: each}) for each in (found, again)]
    for which in (0, 1):
        table = validation.kernel_table({name: both[which] for name, both in data.items()})
        rows = [row for row in table if row.startswith(f"| {kind}")]
        assert [row.split("|")[2].strip() for row in rows] == ["C", "M_C", "R"] and "| agree" in rows[0], table
        assert not any("disagree" in row for row in rows), table
        assert sum("not run" in row for row in table) == 2
    theory = data[f"kernels_{kind}"][0]
    C = theory.theory.kernels.C
    wrong = replace(theory.theory, kernels=replace(theory.theory.kernels, C=C**1.5))
    broken = {name: both[0] for name, both in data.items()} | {f"kernels_{kind}": replace(theory, theory=wrong)}
    assert "disagree" in next(row for row in validation.kernel_table(broken) if f"| {kind} | C" in row)


def test_smaller_sizes_move_the_waiting_times():
    """With --scale the end moves, and every waiting time with it."""
    run = load_run(run_file("validation/gd_alpha2.toml")).replace(validation.kernel_sizes(64, 2, (4, 4, 4))["kernels_gd"])
    changed = run.replace(scaled(run, "theory", 0.3))
    assert changed.theory.waiting_times[-1] == pytest.approx(changed.algorithm.t_max)
