"""The view of effective temperatures, what inspect says of them, and a run that was stopped on its way to them."""

from __future__ import annotations

import numpy as np
import pytest

import dmft
from dmft.core.errors import FileError, Stopped
from tests.png import png_shape
from tests.run_files import run_text
from tests.small_results import StopAfter
from workbench.inspection.facts import facts
from workbench.inspection.kinds import kind_of
from workbench.inspection.opening import open_file

RUN = run_text("langevin", t_max=0.8, algorithm={"temperature": 0.5}, theory={
    "samples": 128, "replicas": 2, "waiting_times": [0.1, 0.2], "fdt": True, "history": "dyadic", "blocks_per_level": 4})


@pytest.mark.long
def test_a_stopped_run_has_the_same_and_can_be_seen(tmp_path, results):
    run = dmft.parse_run(RUN)
    whole = dmft.solve(run, output=tmp_path / "a.h5")
    with pytest.raises(Stopped):
        dmft.solve(run, output=tmp_path / "b.h5", stop=StopAfter(20))
    live = open_file(tmp_path / "b.h5.checkpoint")
    assert np.isfinite(live.result.columns.T_eff).any()
    again = dmft.solve(run, output=tmp_path / "b.h5", resume=True)
    for name in ("D", "T_eff", "T_loc", "T_eff_error"):
        np.testing.assert_array_equal(getattr(again.columns, name), getattr(whole.columns, name))
    opened = open_file(tmp_path / "a.h5")
    np.testing.assert_array_equal(opened.result.fdt().after("T_eff", 1)[1], whole.fdt().after("T_eff", 1)[1])
    kind_of(opened.header).draw_view(opened, "fdt", tmp_path / "a.png")
    assert png_shape(tmp_path / "a.png")[1] > 1000
    assert any(check["name"].startswith("T_eff(0.8, 0.1)") for check in facts(opened)["checks"])
    simulation = open_file(results.simulation)
    with pytest.raises(FileError, match="no view 'fdt'"):
        kind_of(simulation.header).draw_view(simulation, "fdt", None)
