"""Run files: defaults, every kind of slip, overrides, replace, and garbage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dmft.core.errors import RunError
from dmft.core.schema import Unset, to_toml_value
from dmft.equations.kernels import Wanted
from dmft.model.experiment import Experiment
from dmft.model.resume import grown
from dmft.model.runfile import FOR_STUDIES, SECTIONS, Run, changes, load_run, parse_run


def test_defaults_are_those_of_the_interface(demo_text):
    run = parse_run(demo_text)
    assert (run.title, run.problem.loss, run.problem.start, run.problem.constraint) == ("", "phase_retrieval", "warm", "sphere")
    assert (run.algorithm.minibatch, run.algorithm.temperature, run.algorithm.rescale_gradient) == ("bernoulli", 0.0, True)
    theory, simulation = run.theory, run.simulation
    assert (theory.method, theory.samples, theory.replicas, theory.target_error, theory.seed) == ("march", 20000, 8, 0.0, 1)
    assert (theory.mixing, theory.noise, theory.tolerance, theory.max_sweeps) == (0.5, "frozen", 1e-8, 200)
    assert (theory.start_from, theory.history, theory.blocks_per_level) == ("", "auto", 12)
    assert (theory.variance_reduction, theory.checkpoint_interval, theory.device) == (True, 60.0, "cpu")
    assert (simulation.dimension, simulation.instances, simulation.landscape) == (1000, 100, "fresh")
    assert (simulation.record, simulation.seed, simulation.checkpoint_interval) == ("log", 1, 60.0)


def test_integers_are_taken_where_floats_are_meant(demo_text):
    alpha = parse_run(demo_text, overrides=["problem.alpha=3"]).problem.alpha
    assert alpha == 3.0 and isinstance(alpha, float)


@pytest.mark.parametrize("overrides", [
    [], ["algorithm.temperature=[[0, 0.5], [1.5, 0]]"], ["simulation.record=[0, 0.5, 1]"],
    ["theory.variance_reduction=[\"sobol\", \"stein\"]"], ["title=Tab\tand \"quotes\" and \\ and \u00e4 \x7f"],
    ["problem.constraint=ridge", "problem.ridge=0.5"], ["theory.start_from=a b.h5"],
    ["theory.variance_reduction=[\"weights\", \"splitting\"]"], ["theory.tangents=0.5"]])
def test_completed_text_reads_back_to_the_same_run(demo_text, overrides):
    run = parse_run(demo_text, overrides=overrides)
    assert parse_run(run.to_toml()) == run


def test_switches_of_studies_are_written_where_they_are_used(demo_text):
    text = parse_run(demo_text).to_toml()
    assert not any(key in text for key in FOR_STUDIES)
    # results of version 0.1 say "splitting", and stay loadable
    run = parse_run(demo_text, overrides=["theory.tangents=0.5", "theory.variance_reduction=[\"weights\", \"splitting\"]"])
    assert run.theory.variance_reduction == ("weights",)
    assert 'tangents = 0.5\nvariance_reduction = ["weights"]\n' in run.to_toml()


SLIPS = [
    ("algorithm.learning_rat=0.1", ["[algorithm]", "learning_rat", "did you mean 'learning_rate'"]),
    ("algorithm.samples=10", ["unknown key 'samples'", "[theory]"]),
    ("algoritm.kind=gd", ["unknown section [algoritm]", "did you mean 'algorithm'"]),
    ("samples=10", ["unknown key 'samples'", "[theory]"]),
    ("problem.alpha=-1", ["[problem] alpha = -1", "> 0"]),
    ("problem.alpha=nan", ["alpha = nan", "> 0"]),
    ("problem.alpha=1e999", ["alpha = inf", "> 0"]),
    ("problem.alpha=three", ['alpha = "three"', "a number"]),
    ("problem.alpha=true", ["alpha = true", "a number"]),
    ("problem.m0=1.5", ["m0 = 1.5", "> -1 and < 1"]),
    ("problem.m0=1", ["m0 = 1", "> -1 and < 1"]),
    ("problem.m0=-1.0", ["m0 = -1.0", "> -1 and < 1"]),
    ("problem.ridge=0.3", ["ridge", "is not used with constraint = \"sphere\"", "remove it"]),
    ("problem.ridge=0.5", ["'ridge' is not used", 'constraint = "sphere"']),
    ("problem.constraint=ridge", ["missing key 'ridge'", 'constraint = "ridge"']),
    ('problem.constraint=""', ['constraint = ""', "known: sphere, ridge"]),
    ('problem.constraint="\\u0080"', ['constraint = "\\x80"', "known: sphere, ridge"]),
    ('problem.loss="\\u0080"', ['loss = "\\x80"', "phase_retrieval"]),
    ('problem.constraint={kind="sphere", "\\u0080"=1}', ["\\x80", "sphere"]),
    ("problem.loss=phase_retreival", ["loss", "did you mean 'phase_retrieval'"]),
    ("algorithm.kind=gdd", ['kind = "gdd"', "gd, sgd, persistent_sgd, langevin"]),
    ("algorithm.minibatch=bernoulli", ["minibatch", "is not used with kind = \"persistent_sgd\"", "remove it"]),
    ("algorithm.minibatch=bernoulli", ["'minibatch' is not used"]),
    ("algorithm.batch_fraction=0", ["batch_fraction = 0", "> 0 and <= 1"]),
    ("algorithm.persistence=0.01", ["persistence = 0.01", ">= 0.02", "probabilities"]),
    ("algorithm.t_max=0.015", ["t_max = 0.015", "one step", "learning_rate = 0.02"]),
    ("algorithm.t_max=1e-9", ["t_max", "one step"]),
    ("algorithm.t_max=1e30", ["t_max", "steps"]),
    ("algorithm.temperature=[[1, 0.5]]", ["temperature", "schedule"]),
    ("algorithm.temperature=[[0, 0.5], [0, 1]]", ["temperature", "increasing"]),
    ("theory.samples=1.5e0", ["samples = 1.5", "a whole number >= 1"]),
    ("theory.samples=0", ["samples = 0", ">= 1"]),
    ("theory.samples=99999999999999999999999", ["samples", "a whole number"]),
    ("theory.variance_reduction=[\"sobl\"]", ["variance_reduction", "sobol, weights, stein, ibp"]),
    ("simulation.record=[1, 0.5]", ["record", "increasing"]),
    ("simulation.dimension=1", ["dimension = 1", ">= 2"]),
    ("problem=3", ["[problem] must be a section"]),
    ("theory.a.b=3", ["--set", "section.key=value"]),
    ("nonsense", ["--set", "section.key=value"]),
    (Unset("theory.mixing"), ["--unset", "theory.mixing", "no such key"]),
    (Unset("samples"), ["--unset", "samples", "section.key"]),
    (Unset("problem.m0"), ["missing key 'm0'"]),
]


@pytest.mark.parametrize("override, words", SLIPS, ids=[slip[0] for slip in SLIPS])
def test_every_slip_is_one_line_that_says_what_is_wrong(demo_text, override, words):
    with pytest.raises(RunError) as caught:
        parse_run(demo_text, "demo.toml", [override])
    message = str(caught.value)
    assert message.isprintable() and len(message) < 300
    assert message.startswith(("demo.toml: ", "--set ", "--unset "))
    for word in words:
        assert word in message


def test_unknown_keys_come_before_everything_else():
    with pytest.raises(RunError, match="learning_rat'; did you mean"):
        parse_run('[problem]\nalpha = -3\n[algorithm]\nkind = 7\nlearning_rat = 0.1')


@pytest.mark.parametrize("kind, missing", [("sgd", "batch_fraction"), ("persistent_sgd", "batch_fraction"),
                                           ("langevin", "temperature")])
def test_what_a_kind_needs_is_asked_for(kind, missing):
    text = f'[problem]\nalpha = 3\nm0 = 0.2\n[algorithm]\nkind = "{kind}"\nlearning_rate = 0.1\nt_max = 1'
    with pytest.raises(RunError, match=f"missing key '{missing}'"):
        parse_run(text)


def test_missing_warm_start_overlap_and_file(tmp_path, monkeypatch):
    with pytest.raises(RunError, match="missing key 'm0'"):
        parse_run('[problem]\nalpha = 3\n[algorithm]\nkind = "gd"\nlearning_rate = 0.1\nt_max = 1')
    with pytest.raises(RunError, match="No such file"):
        load_run(tmp_path / "none.toml")
    with pytest.raises(RunError, match="cannot be read"):
        load_run(tmp_path)
    with pytest.raises(RunError, match="a run or the path of a run file is wanted, not a dict"):
        load_run({"alpha": 3.0})
    with pytest.raises(RunError, match="use onepass solve"):
        parse_run('[model]\nkind = "Network"')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match="the package has one, .*demo.toml"):
        load_run("runs/demo.toml")
    (tmp_path / "binary.toml").write_bytes(b"\x89HDF\xff\xfe")
    with pytest.raises(RunError, match="UTF-8"):
        load_run(tmp_path / "binary.toml")


def test_fast_switching_at_its_limit_is_allowed(demo_text):
    """tau = eta/l is Bernoulli SGD, and must not fail by rounding."""
    parse_run(demo_text, overrides=["algorithm.batch_fraction=0.3", f"algorithm.persistence={0.02 * 0.7 / 0.3!r}"])


def test_steps_and_temperatures(demo_text):
    run = parse_run(demo_text, overrides=["algorithm.temperature=[[0, 0.5], [1.0, 0.25], [1.5, 0]]"])
    assert run.algorithm.steps == 100
    expected = np.repeat([0.5, 0.25, 0.0], [50, 25, 25])
    np.testing.assert_array_equal(Experiment.from_run(run).temperature, expected)
    np.testing.assert_array_equal(Experiment.from_run(parse_run(demo_text)).temperature, np.zeros(100))


def test_replace_sets_bare_and_dotted_names_through_the_same_checks(demo_text):
    run = parse_run(demo_text)
    assert run.replace(seed=7).theory.seed == run.replace(seed=7).simulation.seed == 7
    assert run.replace({"theory.seed": np.int64(5)}).theory.seed == 5
    assert run.replace(kind="gd").algorithm.batch_fraction == 1.0
    assert run.replace(kind="gd").algorithm.persistence is None
    assert run.replace(title="x").title == "x"
    for wrong in ({"samples": 0}, {"nonsense": 1}, {"kind": "gd", "persistence": 1.0}):
        with pytest.raises(RunError):
            run.replace(wrong)


def test_changes_name_what_differs(demo_text):
    run = parse_run(demo_text)
    assert changes(run, run) == []
    assert changes(run, run.replace(samples=10)) == [("theory.samples", 20000, 10)]
    assert ("algorithm.persistence", 1.0, None) in changes(run, run.replace(kind="gd"))


def test_resume_lets_grow_and_refuses_the_rest(demo_text):
    run = parse_run(demo_text)
    text = run.to_toml()
    assert grown(text, run, "theory", "a.h5") == []
    assert grown(text, run.replace(t_max=3.0, replicas=9, dimension=10), "theory", "a.h5") == \
        ["algorithm.t_max", "theory.replicas"]
    assert grown(text, run.replace(instances=200, samples=3), "simulation", "a.h5") == ["simulation.instances"]
    for change in ({"replicas": 4}, {"learning_rate": 0.01}, {"theory.seed": 2}, {"kind": "gd"}):
        with pytest.raises(RunError, match="refused"):
            grown(text, run.replace(change), "theory", "a.h5")


# --- garbage ----------------------------------------------------------------------------------------------

_scalars = st.one_of(st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.sampled_from(
    ["gd", "sgd", "langevin", "persistent_sgd", "random", "ridge", "log", 0.5, 1.0, 3, [[0.0, 1.0]], [0.0, 1.0]]))
_values = st.one_of(_scalars, st.lists(_scalars, max_size=3), st.dictionaries(st.text(max_size=5), _scalars, max_size=2))
_keys = st.one_of(st.sampled_from(sorted({name for cls in SECTIONS.values() for name in cls.__dataclass_fields__})),
                  st.text(max_size=12))
_sections = st.one_of(st.sampled_from(sorted(SECTIONS)), st.text(max_size=8))


def _always_a_run_or_one_line(text: str, overrides: list[str]) -> None:
    try:
        run = parse_run(text, "garbage.toml", overrides)
    except RunError as error:
        message = str(error)
        assert "\n" not in message and 0 < len(message) < 1000
        assert message.startswith(("garbage.toml: ", "--set "))
    else:
        assert isinstance(run, Run) and parse_run(run.to_toml()) == run


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(_sections, _keys, _values), max_size=4))
def test_garbage_in_a_valid_file(demo_text, entries):
    _always_a_run_or_one_line(demo_text, [f"{section}.{key}={_as_toml(value)}" for section, key, value in entries])


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(_sections, st.dictionaries(_keys, _values, max_size=5), max_size=5))
def test_garbage_documents(document):
    lines = []
    for section, table in document.items():
        lines.append(f"[{to_toml_value(section)}]" if section.isprintable() else "[x]")
        lines += [f"{to_toml_value(key)} = {_as_toml(value)}" for key, value in table.items()]
    _always_a_run_or_one_line("\n".join(lines), [])


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200), st.lists(st.text(max_size=40), max_size=2))
def test_garbage_text(text, overrides):
    _always_a_run_or_one_line(text, overrides)


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "a = " + "1" * 5000, "a = 0x" + "f" * 9000, "\x00", "[problem]\n" * 2,
                                  "a = 1979-05-27T07:32:00Z", "problem = [[1]]", "[[problem]]\nalpha = 1"])
def test_hostile_text(text):
    _always_a_run_or_one_line(text, [])


def _as_toml(value: object) -> str:
    try:
        return to_toml_value(value)
    except TypeError:
        return str(value)


def test_whole_numbers_may_be_written_with_an_exponent(demo_text):
    assert parse_run(demo_text, overrides=["theory.samples=1e4"]).theory.samples == 10_000


def test_a_changed_kind_leaves_out_what_it_does_not_use(demo_text, caplog):
    """From the command line as from Python, with a note; what is given on the command line itself is still refused."""
    with caplog.at_level("INFO", "dmft"):
        run = parse_run(demo_text, overrides=["algorithm.kind=gd"])
    assert run == parse_run(demo_text).replace(kind="gd") and run.algorithm.batch_fraction == 1.0
    assert "persistence is left out" in caplog.text
    with pytest.raises(RunError, match="'batch_fraction' is not used"):
        parse_run(demo_text, overrides=["algorithm.kind=gd", "algorithm.batch_fraction=0.5"])


def test_a_changed_kind_needs_what_a_file_would_need(demo_text):
    run = parse_run(demo_text)
    for change in (lambda: run.replace(kind="langevin"), lambda: run.replace(constraint="ridge"),
                   lambda: parse_run(demo_text, overrides=["algorithm.kind=langevin"])):
        with pytest.raises(RunError, match="missing key"):
            change()
    assert run.replace(kind="langevin", temperature=0.2).algorithm.temperature == 0.2
    hot = run.replace(temperature=0.3)
    assert hot.replace(alpha=2.0).algorithm.temperature == 0.3


def test_a_key_can_be_taken_out(demo_text):
    """In the order of the command line, with --set; what is left is what the file would say without it."""
    run = parse_run(demo_text, overrides=["theory.seed=9", "theory.mixing=0.25", Unset("theory.seed"), "problem.alpha=2.5"])
    assert (run.theory.seed, run.theory.mixing, run.problem.alpha) == (1, 0.25, 2.5)


@pytest.mark.parametrize(("value", "words"), [("[0.0, 5.0]", "beyond algorithm.t_max"), ("3", "a list of increasing times"),
                                              ("[1.0, 0.5]", "increasing times"), ("[-1.0]", "increasing times")])
def test_waiting_times_that_make_no_sense(demo_text, value, words):
    with pytest.raises(RunError, match=words) as error:
        Wanted.of(parse_run(demo_text, overrides=[f"theory.waiting_times={value}"]))
    assert "waiting_times" in str(error.value) and "\n" not in str(error.value)


def test_a_mini_batch_without_a_kind_asks_for_the_kind(demo_text):
    with pytest.raises(RunError, match="missing key 'kind'"):
        parse_run(demo_text, "demo.toml", [Unset("algorithm.kind"), "algorithm.minibatch=bernoulli"])
