"""Ten thousand random run files and 500 small ones through the parsers, and 200 small ones solved: a run or one line, no
traceback, no hang, and no NaN but where a result says that something diverged. Slow:
`pytest -m slow tests/faults/test_random_runs.py`."""

from __future__ import annotations

import signal
import warnings
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import HANG, PATIENCE  # type: ignore[import-not-found]
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dmft.cli
import onepass.cli
import sgd_sim.cli
from dmft.core import schema, store
from dmft.core.errors import RunError
from dmft.model import runfile
from dmft.model.experiment import Experiment
from onepass import runfile as onepass_runs
from onepass.model_keys import MODEL_KINDS
from tests.random_runs import small_run
from tests.run_files import run_text

pytestmark = pytest.mark.slow

FILES, SMALL, SOLVED = 10_000, 500, 200
WORDS = ("gd", "sgd", "langevin", "persistent_sgd", "random", "spectral", "warm", "ridge", "sphere", "log", "linear",
         "iterate", "dyadic", "with_replacement", "mixture", "teacher", "sign", "abs", "square", "logistic", "door",
         "shared", "float16", "fresh", "chain", "sde", "given", "QuadraticNetwork", "Committee", "MultiIndexNetwork",
         "SpikedTensor", "BinaryMixture", "XorMixture", "erf", "relu", "product", "trained", "mean_field", "Radau", "",
         "\x1b[31m", "../../etc/passwd", "nan", "cpu", "gpu")
NUMBERS = (0, 1, 2, 3, 10, 100, 4000, -1, 0.0, -0.0, 0.5, 1e-300, 1e300, 5e-324, 1e18, 2**31, 2**62, 2**63 - 1, 2**64, -(2**63),
           0.1, 0.999999999999, float("nan"), float("inf"), -float("inf"), True, False)
LISTS = ([], [0.5], [0.0, 1.0], [1.0, 0.0], [[0.0, 1.0]], [[0.0, 1.0], [0.5, 2.0]], [[1.0, 0.1], [0.1, 1.0]], [[0.3], [0.1]],
         ["sobol"], [[1.0, 0.5, 1.0, 0.1], [-1.0, 0.5, -1.0, 1.0]], [1e300, -1e300], [float("nan")], [True], [[]],
         [[1.0], [1.0, 2.0]])
PHASES = ([{"begin": 0.1, "learning_rate": 0.01}], [{"step": 3, "momentum": 0.5}, {"step": 5, "temperature": 1.0}],
          [{"begin": -1.0}], [{"step": 2**62, "batch_fraction": 0.5}], [{"begin": 0.1, "kind": "gd"}], [{"step": 3}, {"step": 3}])
POOL = (*PHASES, *WORDS, *NUMBERS, *LISTS)
scalars = st.one_of(st.floats(), st.integers(), st.text(max_size=8))


def checks_of(cls: type) -> dict[str, schema.Check]:
    return {name: field.metadata["check"] for name, field in cls.__dataclass_fields__.items()}


def accepted(check: schema.Check) -> list[Any]:
    """The values of the pool that a key takes, by itself."""
    def takes(value: Any) -> bool:
        try:
            check(value)
        except ValueError:
            return False
        return True

    return [value for value in POOL if takes(value)] or list(POOL)


NUMBER, ROW, TABLE = schema.number(), schema.array("", 1, schema.number()), schema.array("", 2, schema.number())
THEORY_KEYS = {(section, key): accepted(check) for section, cls in runfile.SECTIONS.items()
               for key, check in checks_of(cls).items()}
ONE_PASS_KEYS = {("model", key): accepted(check) for kind in MODEL_KINDS.values() for key, (check, *_) in kind.keys.items()}
ONE_PASS_KEYS |= {("model", "kind"): list(MODEL_KINDS), ("initial", "start"): ["given", "random"]}
ONE_PASS_KEYS |= {("initial", key): accepted(check) for key, check in (("a", ROW), ("M", TABLE), ("Q", TABLE), ("clock", NUMBER),
                  ("m", NUMBER), ("r2", NUMBER), ("v", ROW), ("R", TABLE))}
ONE_PASS_KEYS |= {(section, key): accepted(check) for section, cls in (("time", onepass_runs.TimeConfig),
                  ("simulation", onepass_runs.ProcessConfig)) for key, check in checks_of(cls).items()}
OURS = run_text("gd"), run_text("langevin", algorithm={"temperature": 0.1}), run_text()
THEIRS = tuple("[model]\n" + model + "\n[initial]\n" + start for model, start in (
    ('kind = "QuadraticNetwork"\nwidth = 2\ngamma = 0.2', "M = [[0.3], [0.1]]\nQ = [[1.0, 0.1], [0.1, 1.0]]"),
    ('kind = "Committee"\nwidth = 1\ngamma = 0.2', 'start = "random"'),
    ('kind = "SpikedTensor"\norder = 3\nsignal = 2.0', "m = 0.3\nr2 = 0.8"),
    ('kind = "BinaryMixture"\nsnr = 10.0\nridge = 0.1', 'start = "random"')))


@contextmanager
def no_hang(seconds: float = HANG):
    """An alarm after some time."""
    def ring(number: int, frame: Any) -> None:
        raise TimeoutError(f"still at it after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(int(seconds))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def entries(keys: dict[tuple[str, str], list[Any]]) -> st.SearchStrategy:
    """Some --set words: mostly values that a key takes by itself, so that what they mean together is asked too."""
    def one(place: tuple[str, str]) -> st.SearchStrategy:
        fitting = st.sampled_from(keys[place])
        value = st.one_of(fitting, fitting, fitting, st.sampled_from(POOL), scalars)
        return value.map(lambda found: f"{place[0]}.{place[1]}={schema.to_toml_value(found)}")

    return st.lists(st.sampled_from(sorted(keys)).flatmap(one), max_size=4)


@settings(max_examples=FILES // 2, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(OURS), entries(THEORY_KEYS))
def test_run_files_of_theory_and_simulation(text, found):
    with no_hang():
        try:
            run = runfile.parse_run(text, "a.toml", found)
        except RunError as error:
            assert 0 < len(str(error)) < 1000 and str(error).isprintable()
        else:
            assert runfile.parse_run(run.to_toml()) == run
            run.notes()


@settings(max_examples=FILES // 2, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(THEIRS), entries(ONE_PASS_KEYS))
def test_run_files_of_onepass(text, found):
    with no_hang(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run = onepass_runs.parse_run(text, "a.toml", found)
        except RunError as error:
            assert 0 < len(str(error)) < 1000 and str(error).isprintable()
        else:
            assert onepass_runs.parse_run(run.to_toml()).to_toml() == run.to_toml()


def test_small_runs_are_parsed():
    """What is solved below: nearly all of these are valid, and every way to say a thing is among them."""
    rng, accepted, seen = np.random.default_rng(11), 0, ""
    for _ in range(SMALL):
        text = small_run(rng)
        seen += text
        try:
            run = runfile.parse_run(text, "a.toml")
            Experiment.from_run(run)
        except RunError as error:
            assert 0 < len(str(error)) < 1000 and str(error).isprintable(), text
        else:
            assert runfile.parse_run(run.to_toml()) == run, text
            accepted += 1
    assert accepted > 0.7 * SMALL
    for word in ('start = "random"', 'start = "spectral"', "momentum", "nesterov = true", "reshuffled", "cyclic", "[[phase]]",
                 "begin", "relax", *(f'"kind" = "{kind}"' for kind in ("steps", "power", "linear", "cosine"))):
        assert seen.count(word) > 5, word


# --- small ones, solved ---------------------------------------------------------------------------------------

def small_one_pass(rng: np.random.Generator) -> str:
    model, start = str(rng.choice(THEIRS)).split("\n[initial]\n")
    gamma = float(np.exp(rng.uniform(-4.0, 2.5)))
    model = model.replace("gamma = 0.2", f"gamma = {gamma}\nnoise = {float(rng.uniform(0, 2))}")
    return (f'{model}\n[initial]\n{start}\n[time]\nt_max = {float(rng.uniform(0.05, 2.0))}\npoints = {int(rng.integers(1, 6))}\n'
            f'[simulation]\nprocess = "{rng.choice(["sgd", "chain", "sde"])}"\ndimension = {int(rng.integers(3, 60))}\n'
            f'instances = {int(rng.integers(1, 4))}\n')


def unexplained(path: Path) -> list[str]:
    """Datasets with NaN or infinity that the file does not explain: it says what diverged, and single ones have no errors. A
    solution with half the samples may diverge alone, and leaves no bias where all of them do (docs/hdf5.md)."""
    stored = store.load(path)
    diverged = np.asarray(stored.arrays.get("diverged", np.zeros(0, bool)))
    if "diverged" in str(stored.attrs.get("outcome", "")) + str(stored.attrs.get("outcomes", "")) and not diverged.any():
        return []
    halves = ("half_", "bias/") if not stored.arrays.get("state/bias/count", (0, 1))[1] else ("half_",)
    bad = []
    for name, array in stored.arrays.items():
        if array.dtype.kind != "f" or "error" in name or name.startswith(("state/", "history")) or "residual" in name:
            continue
        if any(word in name for word in halves):
            continue
        if "columns/" in name and array.ndim > 1:  # NaN before the waiting time
            array = array[..., stored.arrays["columns/t"][:, None] >= stored.arrays["columns/t_w"]]
        if diverged.size and array.ndim and len(array) == len(diverged):
            array = array[~diverged]
        if not np.isfinite(array).all():
            bad.append(f"{name}: {stored.attrs.get('outcome')}")
    return bad


def ended(folder: Path, main: Any, words: list[str], seconds: float = HANG) -> tuple[int, str]:
    """Exit code of a command, and what it says on standard error."""
    errors = StringIO()
    with chdir(folder), redirect_stderr(errors), redirect_stdout(StringIO()), no_hang(seconds):
        try:
            return main(words), errors.getvalue()
        except TimeoutError:
            raise
        except Exception as error:
            raise AssertionError(f"{words}: {error!r}\n{(folder / words[1]).read_text()}") from error


COMMANDS = {"theory": (dmft.cli.main, ["solve"], small_run), "simulation": (sgd_sim.cli.main, ["run"], small_run),
            "ode": (onepass.cli.main, ["solve"], small_one_pass), "ensemble": (onepass.cli.main, ["simulate"], small_one_pass)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("command", COMMANDS)
def test_small_runs_are_solved_or_refused(command, tmp_path):
    main, words, make = COMMANDS[command]
    rng, solved = np.random.default_rng(list(COMMANDS).index(command)), 0
    for turn in range(SOLVED // len(COMMANDS)):
        text = make(rng)
        (tmp_path / f"{turn}.toml").write_text(text)
        call = main, [*words, f"{turn}.toml", "-o", f"{turn}.h5", "--quiet", "--force"]
        try:
            code, said = ended(tmp_path, *call)
        except TimeoutError:        # it may have been compiling: let it, and try again
            ended(tmp_path, *call, seconds=PATIENCE)
            code, said = ended(tmp_path, *call)
        assert code in (0, 2, 3, 4), (said, text)
        if code == 2:
            assert len(said.splitlines()) == 1, (said, text)
            continue
        solved += 1
        explained = "NaN from there on" in said         # an iteration that was cut off while its last times still exploded
        assert explained or unexplained(tmp_path / f"{turn}.h5") == [], (said, text)
        assert code != 3 or "diverged" in said, (said, text)
    assert solved > SOLVED / len(COMMANDS) / 3
