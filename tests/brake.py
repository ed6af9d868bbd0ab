"""A plugin that slows the solver down, so that a test can do something to it in the middle of its work."""

from __future__ import annotations

from pathlib import Path

# While the file `crawl` lies beside it, every step of a replica takes that much longer.
_PLUGIN = """
import time
from pathlib import Path
from dmft.running.replica import Replica
_flag = Path(__file__).with_name("crawl")
_step = Replica.step
def crawl(self):
    if _flag.exists():
        time.sleep({seconds})
    _step(self)
Replica.step = crawl
"""


class Brake:
    """`--plugin str(brake.plugin)` crawls until `release`."""

    def __init__(self, folder: Path, seconds: float):
        self.plugin, self._flag = folder / "crawl.py", folder / "crawl"
        self.plugin.write_text(_PLUGIN.format(seconds=seconds))
        self._flag.touch()

    def release(self) -> None:
        self._flag.unlink()
