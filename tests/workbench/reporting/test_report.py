"""dmft report: one page that needs nothing else, looked at in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path

import chromium
import numpy as np
import pytest

import dmft
from dmft.core import store
from tests.png import read_png

pytest.importorskip("plotly")

READY = "document.body && document.body.dataset.ready === 'yes'"
needs_browser = pytest.mark.skipif(chromium.find() is None, reason="no Chromium on this machine (apt-get install chromium); "
                                   "the report was not looked at in a browser")


@pytest.fixture(scope="module")
def page(results, tmp_path_factory) -> Path:
    """A report of a theory, its simulation, a live checkpoint, a study, and a one-pass result."""
    from dmft.cli import main

    folder = tmp_path_factory.mktemp("report")
    run = results.run.replace(kind="gd", samples=64, replicas=3, t_max=0.16, title="<b>study</b> & 'more' </script>")
    dmft.convergence_study(run, samples=[32, 64], learning_rate=[0.04, 0.02], output=folder / "study.h5", quiet=True)
    files = [results.theory, results.simulation, results.live, folder / "study.h5", results.ensemble]
    assert main(["report", *map(str, files), "-o", str(folder / "report.html")]) == 0
    return folder / "report.html"


def _without_scripts(text: str) -> str:
    return re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


@pytest.mark.long
def test_the_page_asks_for_nothing_else(page):
    """No address outside the scripts; inside, the browser is told to refuse the network."""
    text = page.read_text()
    bare = _without_scripts(text)
    assert re.findall(r"(?:src|href)\s*=\s*[\"'](?!data:,)([^\"']*)", bare) == []
    assert "default-src 'none'" in bare and "url(" not in bare and len(text) < 20e6


def test_user_text_is_shown_not_run(page):
    bare = _without_scripts(page.read_text())
    assert "<b>study</b>" not in bare and "&lt;b&gt;study&lt;/b&gt;" in bare


def test_tables_hold_comparison_convergence_runs_and_provenance(page, results):
    bare = _without_scripts(page.read_text())
    for words in ("Theory against simulation", "max |z| =", "Convergence tables", "limit of small learning rates", "Run parameters",
                  "algorithm.learning_rate", "Provenance", "numpy_version", "Checks"):
        assert words in bare
    assert f"{results.result.m[-1]:.4g}" in bare


def test_data_are_the_numbers_of_the_files(page, results):
    text = page.read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1))
    labels = [curve["label"] for curve in data["observables"]["m"]]
    assert len(set(labels)) == len(labels) and not any(".h5" in label for label in labels)
    theory = next(curve for curve in data["observables"]["m"] if curve["label"].startswith("theory, persistent_sgd"))
    assert theory["mean"] == pytest.approx(results.result.m.tolist(), rel=1e-5)
    assert [curve["kind"] for curve in data["observables"]["m"]] == ["theory", "simulation", "theory", "limit"]
    assert {axis["name"] for axis in data["axes"]} == {"samples", "learning_rate"}


def test_files_of_another_experiment_are_named(page, results):
    """The study is one of gradient descent, the first file of persistent SGD: a note says so, and so does the limit."""
    text = page.read_text()
    note = re.search(r"study.h5 shows another experiment than [^<]*", text).group()
    assert "algorithm.kind = &quot;gd&quot; instead of &quot;persistent_sgd&quot;" in note
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1))
    limits = [curve["label"] for curve in data["observables"]["m"] if curve["kind"] == "limit"]
    assert limits == ["limit eta -> 0, gd"]
    assert f"{results.simulation.name} shows another" not in text


def test_an_existing_page_is_kept(page, results, dmft_main):
    done = dmft_main("report", str(results.theory), "-o", str(page))
    assert done.returncode == 2 and "--force" in done.stderr


def test_without_plotly_one_line_says_so(results, dmft_main, monkeypatch):
    import sys
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    done = dmft_main("report", str(results.theory), "-o", "x.html")
    assert done.returncode == 2 and "[report]" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.long
@needs_browser
def test_in_the_browser(page, results, tmp_path):
    """Loads without console errors or requests; plots are drawn; the slider, keys and the address move the slices."""
    kernels, columns = results.result.kernels, results.result.columns
    with chromium.Page(chromium.find(), page.as_uri() + "#t_w=0.09") as browser:
        browser.wait_for(READY)
        assert browser.evaluate("document.querySelectorAll('.plot svg.main-svg').length > 20")
        assert browser.evaluate("[...document.querySelectorAll('.plot')].every(div => div.data.length > 0)")
        # The address asked for t_w = 0.09, which is next to that of step 4.
        assert browser.evaluate("document.getElementById('waiting-text-0').textContent") == "t_w = 0.08"
        assert _slice(browser, "C") == pytest.approx(kernels.C[4:, 4].tolist(), rel=1e-5)
        assert _slice(browser, "chi") == pytest.approx(columns.after("chi", 3)[1].tolist(), rel=1e-5, abs=1e-12)
        assert float(browser.evaluate("document.querySelectorAll('#slice-values-0 tr')[5].cells[1].textContent")) == pytest.approx(
            kernels.C[-1, 4], rel=1e-5)
        # M_C and M_R after the same waiting time.
        assert _slice(browser, "M_C") == pytest.approx(kernels.M_C[4:, 4].tolist(), rel=1e-5)
        assert _slice(browser, "M_R")[1:] == pytest.approx(kernels.M_R[5:, 4].tolist(), rel=1e-5)
        # A real key press on the slider: the next waiting time.
        browser.evaluate("document.getElementById('waiting-0').focus()")
        browser.press("ArrowRight", 39)
        browser.wait_for("document.getElementById('waiting-text-0').textContent === 't_w = 0.16'")
        assert _slice(browser, "C") == pytest.approx(kernels.C[8:, 8].tolist(), rel=1e-5)
        # Linear time: t itself; the heat map follows the choice of kernel.
        browser.evaluate("document.getElementById('log-time').click()")
        assert browser.evaluate("document.getElementById('curve-m').layout.xaxis.type") == "linear"
        assert browser.evaluate("document.getElementById('curve-m').data[2].x[0]") == 0
        browser.evaluate("(c => { c.value = 'R'; c.dispatchEvent(new Event('change')); })(document.getElementById('map-choice-0'))")
        shown = browser.evaluate("document.getElementById('map-0').data[0].z[20][0]")
        assert shown == pytest.approx(kernels.R[20, 0], rel=1e-5)
        tools = browser.evaluate("[...document.querySelectorAll('.modebar-btn')].map(button => button.dataset.title)")
        assert tools and not any(re.search("share|cloud", title, re.IGNORECASE) for title in tools)
        browser.screenshot(tmp_path / "report.png")
        assert browser.errors == []
        assert [url for url in browser.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    _is_a_picture(tmp_path / "report.png")


def _cells(browser: chromium.Page) -> list[list[float]]:
    """Width of each cell and of the drawing in it, once nothing moves any more."""
    browser.wait_for(READY)
    browser.evaluate("new Promise(done => setTimeout(done, 300))")
    return browser.evaluate("[...document.querySelectorAll('.plot')].map(div => [div.clientWidth, "
                            "div.querySelector('svg.main-svg').getBoundingClientRect().width])")


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("width", (1300, 1600, 1920))
def test_every_plot_fits_its_cell(page, tmp_path, width):
    with chromium.Page(chromium.find(), "about:blank") as browser:
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False)
        browser.call("Page.navigate", url=page.as_uri())
        cells = _cells(browser)
        assert len(cells) > 15 and all(300 < cell < width / 2 and abs(drawn - cell) <= 1.0 for cell, drawn in cells)
        browser.screenshot(tmp_path / "page.png")
        # A narrower window: cells and plots shrink together.
        browser.call("Emulation.setDeviceMetricsOverride", width=900, height=1000, deviceScaleFactor=1, mobile=False)
        assert all(abs(drawn - cell) <= 1.0 for cell, drawn in _cells(browser))
    _is_a_picture(tmp_path / "page.png")


@pytest.mark.slow
@needs_browser
def test_plots_drawn_before_their_neighbours_are_seen_not_to_fit(page, tmp_path):
    """The negative twin: a page that draws each plot as soon as its cell is there crops the first of every grid."""
    text = page.read_text()
    hasty = text.replace("queue.push(() => drawPlot(div, traces, shape));", "drawPlot(div, traces, shape);")
    hasty = hasty.replace("watcher.observe(div);", "")
    assert hasty.count("watcher.observe") == 0 and hasty != text
    (tmp_path / "hasty.html").write_text(hasty)
    with chromium.Page(chromium.find(), (tmp_path / "hasty.html").as_uri()) as browser:
        assert any(abs(drawn - cell) > 100.0 for cell, drawn in _cells(browser))


_HIDDEN_LABELS = """[...document.querySelectorAll('.plot')].filter(div => {
  const legend = div.querySelector('.legend'), title = div.querySelector('.xtitle');
  return legend && title && legend.getBoundingClientRect().top < title.getBoundingClientRect().bottom - 1; }).length"""


@pytest.mark.long
@needs_browser
@pytest.mark.parametrize("old", (False, True))
def test_on_a_phone_nothing_lies_over_labels(page, tmp_path, old):
    """old: the negative twin, legends that grow upwards from a fixed share of the plot."""
    text = page.read_text()
    if old:
        text = text.replace('yref: "container", y: 0, yanchor: "bottom"', "y: -0.22").replace("shape.margin.b + below", "45")
    (tmp_path / "page.html").write_text(text)
    with chromium.Page(chromium.find(), "about:blank") as browser:
        browser.call("Emulation.setDeviceMetricsOverride", width=420, height=900, deviceScaleFactor=1, mobile=False)
        browser.call("Page.navigate", url=(tmp_path / "page.html").as_uri())
        _cells(browser)
        assert (browser.evaluate(_HIDDEN_LABELS) > 0) == old
        assert browser.evaluate("document.documentElement.scrollWidth") == 420
        assert browser.evaluate("document.querySelectorAll('.modebar-btn').length") == 0


@needs_browser
def test_the_browser_test_sees_errors(tmp_path):
    """The negative twin: a page that fails and asks the network is caught."""
    bad = tmp_path / "bad.html"
    bad.write_text("<body><img src='http://localhost:9/x.png'><script>document.body.dataset.ready='yes'; nonsense();</script>")
    with chromium.Page(chromium.find(), bad.as_uri()) as browser:
        browser.wait_for(READY)
        browser.evaluate("new Promise(done => setTimeout(done, 300))")
        assert any("nonsense" in text for text in browser.errors)
        assert any(url.startswith("http:") for url in browser.requests)


def _slice(browser: chromium.Page, part: str) -> list[float]:
    """The highlighted curve, drawn last."""
    return browser.evaluate(f"(d => d[d.length - 1].y)(document.getElementById('slice-{part}-0').data)")


def _is_a_picture(path: Path) -> None:
    """Not blank: many colours."""
    image = read_png(path)
    assert image.shape[0] > 500 and len(np.unique(image[::7, ::7, :3].reshape(-1, 3) // 17, axis=0)) > 20


# Each would leave a trace on the page if it were taken for markup, in HTML or by plotly.
HOSTILE = """<img src=x onerror="document.body.dataset.owned='image'"><script>document.body.dataset.owned='script'</script>\
</title></script><b id=owned>bold</b> &lt;i&gt; <a href="javascript:document.body.dataset.owned='link'">link</a> ${'owned'}"""


@pytest.mark.long
@needs_browser
def test_markup_in_titles_and_names_is_text_in_the_browser(results, tmp_path):
    from dmft.cli import main

    stored = store.load(results.theory)
    path = tmp_path / "<b id=owned>name<b> &lt; <svg onload=document.body.dataset.owned=1>.h5"
    run = results.run.replace(title=HOSTILE)
    store.save(path, "theory", run.to_toml(), stored.arrays, {**stored.attrs, f"plugin:{HOSTILE}": HOSTILE})
    assert main(["report", str(path), str(results.theory), "-o", str(tmp_path / "page.html")]) == 0
    with chromium.Page(chromium.find(), (tmp_path / "page.html").as_uri()) as browser:
        browser.wait_for(READY)
        assert browser.evaluate("document.body.dataset.owned || ''") == ""
        assert browser.evaluate("document.querySelectorAll('#owned, body img, body svg[onload], a[href*=script]').length") == 0
        # Shown letter by letter, in the page and in every legend that names the file.
        assert HOSTILE in browser.evaluate("document.body.textContent")
        legends = browser.evaluate("[...document.querySelectorAll('.legendtext')].map(text => text.textContent)")
        assert f"theory, {path.name}" in legends
        assert browser.errors == []


@pytest.mark.long
def test_a_scan_is_shown_as_its_table(results, tmp_path, dmft_main):
    """With the numbers of its files, and not as one experiment that differs from others."""
    run, folder = results.run.replace(kind="gd", samples=32, replicas=2, t_max=0.1), tmp_path / "grid"
    scan = dmft.scan(run, {"problem.alpha": [2.0, 3.0]}, folder, quiet=True)
    done = dmft_main("report", str(results.theory), str(folder / "sweep.h5"), "-o", "scan.html")
    assert done.returncode == 0, done.stderr
    bare = _without_scripts((tmp_path / "scan.html").read_text())
    assert "<h2>Scans</h2>" in bare and "sweep.h5 shows another experiment" not in bare
    for m in scan.arrays["m"].ravel():
        assert f"<td>{m:.4g}</td>" in bare
