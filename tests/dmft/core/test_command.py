"""Exit codes, options, stop signals, output names and plugins."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from dmft.core import command, store
from dmft.core.errors import DmftWarning, FileError, OutcomeWarning, ResultWarning, UserError
from dmft.model.losses import get_loss
from dmft.model.runfile import load_run
from dmft.version import __version__

pytestmark = pytest.mark.cli

BAD_INPUT = [
    [], ["frobnicate"], ["solve"], ["solve", "none.toml"], ["solve", "demo.toml", "--nonsense"],
    ["solve", "demo.toml", "--set", "theory.sampels=3"], ["solve", "demo.toml", "--resume", "--force"],
    ["solve", "demo.toml", "--time-limit", "soon"], ["solve", "demo.toml", "--plugin", "none.py"],
    ["solve", "demo.toml", "--plugin", "broken.py"], ["solve", "demo.toml", "--plugin", "leaves.py"],
    ["solve", "demo.toml", "-o", "taken.h5"], ["solve", "demo.toml", "-o", "."],
    ["solve", "demo.toml", "-o", "stopped.h5"],
]


@pytest.mark.parametrize("arguments", BAD_INPUT, ids=[" ".join(arguments) for arguments in BAD_INPUT])
def test_bad_input_is_exit_2_and_one_line(arguments, tmp_path, demo_text, dmft_main):
    (tmp_path / "demo.toml").write_text(demo_text)
    (tmp_path / "taken.h5").write_text("")
    store.checkpoint_path(tmp_path / "stopped.h5").write_text("")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "leaves.py").write_text("raise SystemExit(0)\n")
    done = dmft_main(*arguments)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and done.stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "broken.py", "demo.toml", "leaves.py", "stopped.h5.checkpoint", "taken.h5"]


@pytest.mark.parametrize("command_line", [["solve"], ["converge", "--samples", "20,40"]], ids=["solve", "converge"])
@pytest.mark.parametrize("setting", ["theory.device=gpu", "theory.method=iterate"])
def test_errors_after_reading_name_the_run_file(command_line, setting, tmp_path, demo_text, dmft_main, with_cupy):
    with_cupy(None)
    text = demo_text.replace("m0 = 0.5\n", 'start = "random"\n') if setting == "theory.method=iterate" else demo_text
    (tmp_path / "demo.toml").write_text(text)
    done = dmft_main(*command_line, "demo.toml", "--quiet", "--set", setting)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and ": demo.toml: [" in done.stderr


def _job(*arguments):
    parser = command.Parser()
    command.run_options(parser)
    return command.read_job(parser.parse_args(arguments), "theory", load_run, "theory")


def test_a_last_time_that_is_not_t_max_is_told(tmp_path, demo_text, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo.toml").write_text(demo_text)
    _job("demo.toml", "--set", "algorithm.t_max=1.995")
    assert "the last time is 2" in capsys.readouterr().err
    _job("demo.toml", "--set", "algorithm.t_max=0.06")
    assert capsys.readouterr().err == ""


def test_resume_refuses_a_changed_plugin(tmp_path, demo_text, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo.toml").write_text(demo_text)
    plugin = tmp_path / "mine.py"
    plugin.write_text("a = 1\n")
    resumed = ["demo.toml", "-o", "a.h5", "--resume", "--plugin", "mine.py"]
    first = _job(*resumed)
    store.save("a.h5", "theory", first.run.to_toml(), {}, first.attrs)
    _job(*resumed)
    plugin.write_text("a = 2\n")
    with pytest.raises(FileError, match="mine.py has changed"):
        _job(*resumed)
    _job("demo.toml", "-o", "a.h5", "--force", "--plugin", "mine.py")


@pytest.mark.parametrize("arguments, words", [
    (["--version"], [f"dmft {__version__}"]), (["--help"], ["examples:", "exit codes", "compare"]),
    (["solve", "--help"], ["--resume", "examples:"]), (["compare", "--help"], ["--plot", "examples:"])])
def test_help_teaches(dmft_main, arguments, words):
    done = dmft_main(*arguments)
    assert done.returncode == 0 and done.stderr == ""
    for word in words:
        assert word in done.stdout


@pytest.mark.parametrize("run, name", [("runs/demo.toml", "runs/out/demo.theory.h5"), ("mine.toml", "runs/out/mine.theory.h5"),
                                       ("runs/fig2/gd.toml", "runs/out/fig2/gd.theory.h5"),
                                       ("/a/runs/fig2/gd.toml", "runs/out/fig2/gd.theory.h5")])
def test_default_output(run, name):
    assert command.default_output(run, "theory") == Path(name)


@pytest.mark.parametrize("text, value", [("90", 90.0), ("1:30", 90.0), ("02:00:00", 7200.0), (None, None)])
def test_time_limits(text, value):
    assert command.seconds(text) == value


@pytest.mark.parametrize("text", ["", "-1", "1:x", "nan", "inf"])
def test_bad_time_limits(text):
    with pytest.raises(UserError):
        command.seconds(text)


def test_memory_that_runs_out_is_one_line(capsys):
    """NumPy and CuPy both raise a MemoryError."""
    code = command.main_wrapper(lambda _: np.empty(1 << 56).size)
    error = capsys.readouterr().err
    assert code == 2 and error.count("\n") == 1 and "out of memory (Unable to allocate" in error and "--resume" in error


@pytest.mark.parametrize("quiet, printed", [(False, "a note\nwarning: plain\nwarning: of a result\nof its end\n"),
                                            (True, "warning: of a result\nof its end\n")])
def test_commands_print_notes_and_warnings_of_the_library(capsys, quiet, printed):
    logger = logging.getLogger("dmft.some.module")
    with command.speaking(quiet):
        logger.info("a note")
        for text, category in (("plain", DmftWarning), ("of a result", ResultWarning), ("of its end", OutcomeWarning)):
            warnings.warn(text, category, stacklevel=1)
    logger.info("not here")
    with pytest.warns(DmftWarning):
        warnings.warn("nor this", DmftWarning, stacklevel=1)
    assert capsys.readouterr() == ("", printed)
    assert logging.getLogger("dmft").level == logging.NOTSET and logging.getLogger("dmft").handlers == []


WAITS = """
import sys, time
from functools import reduce
from operator import or_
from dmft.core.command import StopSignals, main_wrapper
from dmft.core.errors import Stopped
from dmft.core.parallel import world
from dmft.core.stopping import exit_code_of

def wait(arguments):
    with StopSignals(float(sys.argv[1]) if len(sys.argv) > 1 else None) as stop:
        print("ready", flush=True)
        for _ in range(1000):
            if code := exit_code_of(reduce(or_, world().gather(stop.flags))):
                raise Stopped("stopped; --resume continues", code)
            time.sleep(0.02)
    return 0

sys.exit(main_wrapper(wait))
"""


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 75), (signal.SIGUSR1, 75), (signal.SIGINT, 130)])
def test_signals(number, code):
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, error = process.communicate(timeout=20)
    assert process.returncode == code and error.count("\n") == 1 and "--resume" in error


def test_time_limit_is_a_stop_agreed_by_all_ranks(run_python):
    done = run_python("-c", WAITS, "0.3", ranks=2)
    assert done.returncode == 75 and done.stderr.count("--resume") == 1


def test_plugins_register_losses_and_are_hashed(tmp_path):
    path = tmp_path / "plugin.py"
    path.write_text("import dmft\ndmft.register_loss('from_plugin', lambda f, y: (f - y)**2, lambda f, y: 2*(f - y),"
                    " lambda f, y: 2.0 + 0*f)\n")
    assert command.load_plugin(str(path)) == store.sha256_of(path)
    assert get_loss("from_plugin").dv(1.0, 0.0) == 2.0
    with pytest.raises(FileError):
        command.load_plugin(str(tmp_path / "none.py"))


def test_the_module_runs_as_a_command(run_python):
    done = run_python("-m", "dmft", "--version")
    assert done.returncode == 0 and done.stdout == f"dmft {__version__}\n"


def test_set_and_unset_come_in_the_order_of_the_command_line(demo_text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo.toml").write_text(demo_text)
    job = _job("demo.toml", "--set", "theory.seed=7", "--unset", "theory.seed", "--set", "problem.m0=0.25")
    assert job.run.theory.seed == 1 and job.run.problem.m0 == 0.25


def test_an_output_of_another_format_is_refused(dmft_main, demo_text, tmp_path):
    (tmp_path / "demo.toml").write_text(demo_text)
    done = dmft_main("solve", "demo.toml", "-o", "a.txt")
    assert done.returncode == 2 and "results are HDF5 files; name it a.h5" in done.stderr and len(done.stderr.splitlines()) == 1


def test_many_results_print_a_kind_of_warning_once(capsys):
    with command.once(), command.speaking(True):
        for value in (0.1, 3e-5, 7.0):
            warnings.warn(f"weight {value:g} at t = {value}", ResultWarning, stacklevel=1)
        warnings.warn("another", ResultWarning, stacklevel=1)
    assert capsys.readouterr().err.splitlines() == [
        "warning: weight 0.1 at t = 0.1", "warning: another",
        "2 more warnings like these, with other numbers; dmft inspect shows those "
        "of a result"]
    with command.speaking(True):
        warnings.warn("another", ResultWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: another\n"


def test_a_mistyped_choice_is_answered_with_the_nearest_one():
    parser = command.Parser(prog="dmft solve")
    command.run_options(parser)
    with pytest.raises(UserError, match="did you mean 'gpu'"):
        parser.parse_args(["a.toml", "--device", "gup"])
    with pytest.raises(UserError, match=r"\(choose from 'cpu', 'gpu'\) \(see dmft solve --help\)"):
        parser.parse_args(["a.toml", "--device", "xyz"])


@pytest.mark.parametrize("shape", [(2**40, 2**40), 2**62, (2**31,) * 2])
def test_an_array_too_large_for_any_machine_is_one_line(shape, capsys):
    """NumPy has two errors for it; any other ValueError is a bug, and stays one."""
    assert command.main_wrapper(lambda _: np.zeros(shape)) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "out of memory (" in said
    with pytest.raises(ValueError, match="broadcast"):
        command.main_wrapper(lambda _: np.zeros(2) + np.zeros(3))
