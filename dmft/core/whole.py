"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dmft.core.errors import FileError


@contextmanager
def whole(place: Path, ending: str = "") -> Iterator[Path]:
    """The path, beside `place`, of a file to write in this block: it takes its place when the block ends, and is removed when that
    fails. ending: of that path, where `place` has none. FileError where nothing can be written there."""
    part = place.with_name(f".{place.stem}.{os.getpid()}{place.suffix or ending}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        yield part
        part.replace(place)
    except OSError as error:
        raise FileError(f"{place}: cannot be written: {error.strerror}") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
