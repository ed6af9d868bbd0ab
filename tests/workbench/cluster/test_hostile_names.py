"""What comes from outside reaches a batch script as one word each: nothing in a name is run, expanded or taken for an option."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from dmft.core.errors import UserError
from workbench.cluster.script import Resources, Script

pytestmark = pytest.mark.cli

HOSTILE = ["it's", 'say "hi"', "$(touch PWNED)", "`touch PWNED`", "50%j 100%%", "-rf", "--help", "a b;touch PWNED #", "$HOME &",
           "a\\b", "*?[x]"]
CONTROL = ["x\ntouch PWNED #", "x\rtouch PWNED", "x\x1b[31m", "x\x00y", "x\u2028y", "x\x7f"]


def options_of(script: str) -> list[str]:
    """The #SBATCH options before the first command, as a shell reads their quotes."""
    lines = script.splitlines()
    assert lines[0] == "#!/bin/bash"
    first = next(i for i, line in enumerate(lines[1:], 1) if not line.startswith("#SBATCH "))
    assert not any(line.startswith("#SBATCH") for line in lines[first:])
    return [word for line in lines[1:first] for word in shlex.split(line.removeprefix("#SBATCH "))]


def run_script(text: str, folder, task: int = 0) -> list[str]:
    """The words of the command that a script would run."""
    shown = text.replace('survive "${launch[@]}" "${command[@]}"', 'printf "%s\\0" "${command[@]}"')
    assert shown != text
    done = subprocess.run(["bash", "-c", shown], cwd=folder, capture_output=True, text=True,
                          env={"SLURM_ARRAY_TASK_ID": str(task), "PATH": os.environ["PATH"], "HOME": "/nowhere"})
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("\n")[2].split("\0")[:-1]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("array", [False, True])
def test_every_name_is_a_word(dmft_main, demo_text, tmp_path, name, array):
    """The same odd name for the run file, the output, a plugin, a title and a site's option."""
    run, plugin = f"{name}.toml", f"{name}.py"
    (tmp_path / run).write_text(demo_text)
    (tmp_path / plugin).write_text("")
    title = f"title={toml(name)}"
    extra = ["--array", "problem.alpha=2,3"] if array else []
    output = f"--output={name}/out{'' if array else '.h5'}"
    done = dmft_main("submit", "--dry-run", f"--set={title}", f"--sbatch=--comment={name}", output, f"--plugin={plugin}", *extra,
                     "--", run)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / name / ("out" if array else "")
    text = (folder / f"{name}.theory.sbatch").read_text()
    words = run_script(text, tmp_path, 1)
    assert words[3] == "solve" and Path(words[4]).parent == folder and Path(words[4]).read_text() == demo_text
    assert words[5:7] == ["--set", title] and str(tmp_path / plugin) in words
    assert words[words.index("-o") + 1].startswith(str(tmp_path / name / "out"))
    options = options_of(text)
    assert f"--job-name={name}.theory" in options and f"--comment={name}" in options
    log = next(option for option in options if option.startswith("--output="))
    literal = str(folder / f"{name}.theory.").replace("%", "%%") + "%a.log" if array else str(folder / "out.log").replace("%", "%%")
    assert log == f"--output={literal}"
    assert not any(path.name == "PWNED" for path in tmp_path.rglob("*"))


def toml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@pytest.mark.parametrize("name", CONTROL)
@pytest.mark.parametrize("what", ["run", "output", "sbatch", "plugin", "prologue"])
def test_control_characters_are_refused_in_one_line(dmft_main, demo_text, tmp_path, name, what):
    (tmp_path / "a.toml").write_text(demo_text)
    if "\0" not in name:
        for ending in (".toml", ".py"):
            (tmp_path / (name + ending)).write_text(demo_text if ending == ".toml" else "")
    words = {"run": [f"{name}.toml"], "output": ["a.toml", "-o", f"{name}/x.h5"],
             "sbatch": ["a.toml", f"--sbatch=--comment={name}"],
             "plugin": ["a.toml", "--plugin", f"{name}.py"], "prologue": ["a.toml", "--prologue", f"{name}.py"]}[what]
    done = dmft_main("submit", "--dry-run", *words)
    assert done.returncode == 2 and "control characters" in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1 and done.stderr[:-1].isprintable()
    assert not list(tmp_path.rglob("*.sbatch"))


def test_other_complaints(dmft_main, demo_text, tmp_path):
    (tmp_path / "a.toml").write_text(demo_text)
    (tmp_path / "options.sh").write_text("module load x\n#SBATCH --exclusive\n")
    for words, said in ((["--sbatch=long"], "not an option"), (["--prologue", "options.sh"], "give options with --sbatch"),
                        (["--prologue", "none.sh"], "cannot be read"),
                        (["--launcher", "srun 'x", "--ranks", "2"], "No closing quotation")):
        done = dmft_main("submit", "a.toml", "--dry-run", *words)
        assert done.returncode == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_the_script_itself_refuses_line_breaks(tmp_path):
    """Also where a name comes by another way than the command line."""
    resources = Resources(1, 1, 1, 600.0, 1e6, 60.0)
    with pytest.raises(UserError, match="control characters"):
        Script("x\ntouch PWNED #", tmp_path / "x.log", [["true"]], False).resumable(resources)
    with pytest.raises(UserError, match="control characters"):
        Script("x", tmp_path / "x\ny.log", [["true"]], False).once()
