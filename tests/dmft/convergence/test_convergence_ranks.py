"""A study does not depend on the number of ranks."""

from __future__ import annotations

import numpy as np
import pytest

from dmft.core import store
from tests.run_files import run_text

pytestmark = pytest.mark.mpi


@pytest.mark.slow
def test_points_over_ranks_give_the_same_study(run_python, tmp_path):
    (tmp_path / "run.toml").write_text(run_text("gd", t_max=0.1, theory={"samples": 64, "replicas": 2}))
    for ranks in (1, 3):
        done = run_python("-m", "dmft", "converge", "run.toml", "--samples", "32,64", "--quiet", "-o", f"{ranks}.h5", ranks=ranks,
                          timeout=240)
        assert done.returncode == 0, done.stderr
    one, three = store.load(tmp_path / "1.h5").arrays, store.load(tmp_path / "3.h5").arrays
    assert set(one) == set(three)
    for name in one:
        if not name.endswith("wall_times"):
            assert np.array_equal(one[name], three[name], equal_nan=True), name
