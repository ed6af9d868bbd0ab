"""`import dmft`: what it shows, and that each name does what its command does."""

from __future__ import annotations

import pydoc

import numpy as np
import pytest

import dmft
import sgd_sim
from dmft.core.averages import with_error

OBJECTS = {"Abs", "Channel", "Constraint", "DataModel", "Door", "Drawing", "Field", "GradientDescent", "Langevin",
           "Linear", "LinearUpdate", "Logistic", "LossFamily", "Mixture", "NetworkConstraint", "PSpin", "PersistentSGD",
           "PhaseRetrieval", "Random", "Ridge", "SGD", "ScheduleForm", "Sign", "SmoothHinge", "Spectral", "Sphere", "Square",
           "Start", "Teacher", "Warm"}
OFFERED = {"Estimator", "Experiment", "Run", "UserError", "__version__", "bayes", "boolean", "choice", "compare",
           "convergence_study", "fixed_point", "integer", "load", "load_run", "number", "option", "parse_run", "quantity",
           "register_loss", "register_observable", "register_preprocessing", "report", "scan", "solve", "start_law", *OBJECTS}


def test_completion_shows_what_is_offered_and_nothing_foreign():
    assert set(dir(dmft)) == OFFERED == set(dmft.__all__)
    names: dict = {}
    exec("from dmft import *", names)
    assert set(names) - {"__builtins__"} == OFFERED and all(names[name] is getattr(dmft, name) for name in OFFERED)
    with pytest.raises(AttributeError, match="solve"):
        dmft.slove  # noqa: B018


def test_help_explains_every_function():
    text = pydoc.render_doc(dmft, renderer=pydoc.plaintext)
    for name in ("solve", "compare", "report", "convergence_study", "load"):
        assert f"{name}(" in text and getattr(dmft, name).__doc__
    assert "import_module" not in text


def test_the_package_starts_without_compilers(run_python):
    """Importing dmft costs milliseconds: Numba, HDF5 and the solver come when they are asked for."""
    done = run_python("-c", "import sys, dmft; dir(dmft); print([m for m in ('numba', 'h5py', 'scipy', 'dmft.running') "
                            "if m in sys.modules])")
    assert done.stdout.strip() == "[]", done.stderr


def test_special_functions_come_when_they_are_used(run_python):
    """They take a third of a second; most simulations, and whoever looks at their files, need none."""
    done = run_python("-c", "import sys, sgd_sim, workbench.cli.inspect, workbench.kinds.simulation, workbench.kinds.theory; "
                            "print([m for m in ('scipy.special', 'scipy.linalg', 'scipy.stats') if m in sys.modules])")
    assert done.stdout.strip() == "[]", done.stderr


def test_the_version_is_told_without_loading_the_numerics(run_python):
    done = run_python("-X", "importtime", "-m", "dmft", "--version")
    assert done.stdout == f"dmft {dmft.__version__}\n" and done.returncode == 0
    assert not any(name in done.stderr for name in ("numba", "numpy", "h5py", "mpi4py"))


def test_curves_are_fields_of_a_theory(results):
    theory = results.result
    assert {"m", "m_error", "loss", "loss_error", "mse", "nu_hat", "delta_nu_error", "unstable"} <= set(dir(theory))
    assert theory.curves["m"] is theory.m and set(theory.curves) == {
        name for base in ("m", "loss", "mse", "nu_hat", "nu_hat_direct", "delta_nu", "mu", "q", "nu_gap", "ibp_gap",
                             "unstable", "lost")
        for name in (base, f"{base}_error")}
    with pytest.raises(AttributeError):
        theory.overlap  # noqa: B018


def test_reprs_are_short_and_html_is_a_table(results):
    theory, sim = results.result, results.sim
    for thing in (theory, theory.kernels, sim):
        assert len(repr(thing)) < 220 and "array(" not in repr(thing) and "\n" not in repr(thing)
        html = thing._repr_html_()
        assert html.startswith("<table>") and "<polyline" in html and "<script" not in html and len(html) < 20_000
    assert with_error(theory.m[-1], theory.m_error[-1]) in repr(theory)
    assert with_error(sim.mean().m[-1], sim.error().m[-1]) in repr(sim)
    from dataclasses import replace
    shown = replace(theory, run=theory.run.replace(title="<b>x</b>"))._repr_html_()
    assert "<b>" not in shown and "&lt;b&gt;" in shown


def test_a_path_is_solved_like_its_run(results, tmp_path):
    file = tmp_path / "first.toml"
    file.write_text(results.run.replace(t_max=0.1, replicas=2).to_toml())
    assert np.array_equal(dmft.solve(file, quiet=True).m, dmft.solve(dmft.load_run(file), quiet=True).m)
    for compute in (dmft.solve, sgd_sim.simulate):
        with pytest.raises(dmft.UserError, match="missing.toml"):
            compute(str(tmp_path / "missing.toml"))


def test_compare_takes_objects_and_files_alike(results, dmft_main, tmp_path):
    found = dmft.compare(results.result, results.sim, observable=["m", "loss"])
    again = dmft.compare(results.theory, str(results.simulation), observable=("m", "loss"))
    assert found.max_z == again.max_z and found.verdict == again.verdict
    assert np.array_equal(found.comparisons[1].z, again.comparisons[1].z)
    done = dmft_main("compare", str(results.theory), str(results.simulation), "--observable", "m", "--observable", "loss")
    assert str(again) in done.stdout and done.stdout.splitlines()[-1] == f"max |z| = {again.max_z:.2f}"
    assert repr(found).count("\n") == 0 and found._repr_html_().startswith("<pre>")
    with pytest.raises(dmft.UserError, match="simulation"):
        dmft.compare(results.result)


@pytest.mark.long
def test_pictures_from_python(results, tmp_path):
    pytest.importorskip("matplotlib")
    figure = results.result.plot()
    assert len(figure.axes) > 12 and list(tmp_path.iterdir()) == []
    results.result.plot(tmp_path / "theory.png")
    dmft.compare(results.result, results.sim, plot=tmp_path / "compare.png")
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("theory.png", "compare.png"))


def test_a_report_is_a_page(results, dmft_main, tmp_path):
    pytest.importorskip("plotly")
    assert dmft.report(results.theory, tmp_path / "one.html", title="A & B", notes="by hand") == tmp_path / "one.html"
    text = (tmp_path / "one.html").read_text()
    assert "<h1>A &amp; B</h1>" in text and "<p>by hand</p>" in text
    with pytest.raises(dmft.UserError, match="--force"):
        dmft.report([results.theory], tmp_path / "one.html")
    done = dmft_main("report", str(results.theory), "-o", "x.pdf")
    assert done.returncode == 2 and "FILE.html" in done.stderr and not (tmp_path / "x.pdf").exists()


def test_extras_that_are_missing_are_named_before_anything_is_computed(results, dmft_main, monkeypatch, tmp_path):
    import sys
    for name in [name for name in sys.modules if name.split(".")[0] in ("matplotlib", "plotly")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "plotly", None)
    (tmp_path / "run.toml").write_text(results.run.to_toml())
    theory, sim = str(results.theory), str(results.simulation)
    for words, extra in ((["plot", theory], "[plot]"), (["compare", theory, sim, "--plot", "x.png"], "[plot]"),
                         (["converge", "run.toml", "--samples", "32,64", "--plot", "x.png"], "[plot]"),
                         (["figure", "fig2", "--quick"], "[plot]"), (["report", theory, "-o", "x.html"], "[report]")):
        done = dmft_main(*words)
        assert done.returncode == 2 and extra in done.stderr and len(done.stderr.splitlines()) == 1 and done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]


def test_commands_that_do_not_exist_are_guessed(dmft_main):
    done = dmft_main("slove", "x.toml")
    assert done.returncode == 2 and "did you mean 'solve'?" in done.stderr and len(done.stderr.splitlines()) == 1


