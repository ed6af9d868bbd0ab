"""Control characters from outside are written out where they are shown."""

from __future__ import annotations

from dmft.core import store
from dmft.core.text import visible


def test_control_characters_are_written_out():
    assert visible("plain, \u00e9\u03bd") == "plain, \u00e9\u03bd"
    assert visible("a\x1b[31mb\nc\x7f\x9b\u2028\u202e") == "a\\x1b[31mb\\nc\\x7f\\x9b\\u2028\\u202e"


def test_titles_and_names_cannot_move_the_cursor(results, tmp_path, dmft_main):
    """A title, an outcome and a dataset with escape sequences: shown by inspect and diff, and in errors, as text."""
    stored = store.load(results.theory)
    run = stored.run_text.replace('title = "small"', r'title = "up\u001b[2Jdown\nsecond"')
    assert run != stored.run_text
    store.save(tmp_path / "odd.h5", "theory", run, {**stored.arrays, "odd\x1b[1A\nname": stored.arrays["m"]},
               {**stored.attrs, "outcome": "done\x1b]0;gone\x07"})
    for words in (["inspect", "odd.h5"], ["diff", "odd.h5", str(results.theory)], ["inspect", "missing\x1b[31m.h5"]):
        done = dmft_main(*words)
        shown = done.stdout + done.stderr
        assert "\\x1b" in shown and all(line.isprintable() for line in shown.split("\n")), shown
    assert "up\\x1b[2Jdown\\nsecond" in dmft_main("inspect", "odd.h5").stdout
