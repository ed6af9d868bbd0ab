"""Without matplotlib: one line, before anything is read or computed."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.cli

BARE = """
import sys
sys.modules["matplotlib"] = None
from dmft.cli import main as dmft_main
from onepass.cli import main as onepass_main
for words in (["plot", "none.h5"], ["converge", "none.toml", "--samples", "1,2", "--plot", "a.png"], ["figure", "fig2"],
              ["compare", "none.h5", "none.h5", "--plot", "a.png"], ["collect", "none", "--plot", "a.png"]):
    assert dmft_main(words) == 2, words
assert onepass_main(["compare", "none.h5", "none.h5", "--plot", "a.png"]) == 2
import dmft
from dmft.result import pictures
try:
    pictures.draw("workbench.plots.theory", None, None)
except dmft.UserError as error:
    sys.stderr.write(str(error))
"""


@pytest.mark.long
def test_what_draws_says_so_first(tmp_path):
    done = subprocess.run([sys.executable, "-c", BARE], cwd=tmp_path, capture_output=True, text=True)
    lines = done.stderr.splitlines()
    assert done.returncode == 0 and len(lines) == 7, done.stderr
    assert all(line.endswith("pictures need matplotlib; install the extra [plot]") for line in lines), done.stderr
