"""Files that are written whole or not at all."""

from __future__ import annotations

import pytest

from dmft.core.errors import FileError
from dmft.core.whole import whole


def test_a_file_takes_its_place_when_it_is_whole(tmp_path):
    place = tmp_path / "new" / "a.txt"
    with whole(place) as part:
        part.write_text("one")
        assert part.suffix == ".txt" and not place.exists()
    assert place.read_text() == "one" and [file.name for file in place.parent.iterdir()] == ["a.txt"]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    place = tmp_path / "picture"
    place.write_text("old")
    with pytest.raises(KeyError), whole(place, ".png") as part:
        part.write_text("half")
        assert part.suffix == ".png"
        raise KeyError
    assert place.read_text() == "old" and [file.name for file in tmp_path.iterdir()] == ["picture"]


def test_where_nothing_can_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="a.txt: cannot be written: "), whole(tmp_path / "file" / "a.txt") as part:
        part.write_text("never")
