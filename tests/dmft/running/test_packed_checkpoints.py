"""Checkpoints of a history in blocks are packed without loss: the same bits after a stop, and nobody reads what is left out."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import dmft
from dmft.core import store
from dmft.core.checkpoint import Checkpoint, _put
from dmft.core.errors import FileError, Stopped
from dmft.core.packing import Guide, pack, unpack
from dmft.core.parallel import Comm
from dmft.core.parts import Part, pieces_of_parts
from dmft.core.tree import flatten
from dmft.equations.kernels import Wanted
from dmft.running.cost import estimate
from dmft.running.replica import Replica, Setup
from dmft.running.runner import TheoryJob
from dmft.samples.gpu import Card
from dmft.solvers.march import March
from tests.dmft.samples.test_gpu_company import STEPS, marches_on, stepped
from tests.small_results import StopAfter
from tests.solver_cases import ALGORITHMS, make_march, make_run

SMALL = {"samples": 64, "replicas": 1, "history": "dyadic", "blocks_per_level": 4}


def arrays_and_guides(march: March):
    """Every array that is packed: its name, what it holds, and its guide."""
    for arrays, guides in zip((march.per_sample(), march.per_tangent()), march.guides(), strict=True):
        for name, guide in guides.items():
            yield name, arrays[name], guide


def in_rows(guide, numbers: int) -> np.ndarray:
    """(numbers,): which numbers of a line are in a row."""
    found = np.zeros(numbers, bool)
    for begin, length in zip(guide.begin, guide.length, strict=True):
        found[begin : begin + length] = True
    return found


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("at", [0, 1, 2, 37, 70])
def test_the_state_on_the_cpu_comes_back_to_the_bit(at, kind):
    """All of it: on the CPU what is left out is zero."""
    whole = make_march(make_run(ALGORITHMS["persistent and hot"], steps=70), per_level=4, samples=60)
    march = March(whole.experiment, whole.sampling, 4, Wanted.plain(70), Comm(), kind)
    for _ in range(at):
        march.step()
    names = []
    for name, array, guide in arrays_and_guides(march):
        assert_array_equal(unpack(pack(array, guide)).view(np.uint8), np.ascontiguousarray(array).view(np.uint8), err_msg=name)
        names.append(name)
        assert at < 2 or not in_rows(guide, array.shape[1]).all()
    assert names == ["past/H", "past/G", "past/X", "past/Y", "T", "row"]


def test_a_full_history_is_not_packed():
    assert make_march(make_run(ALGORITHMS["sgd"], steps=5), samples=20).guides() == ({}, {})


def test_without_the_control_variate_its_past_is_not_packed():
    march = make_march(make_run(ALGORITHMS["sgd"], steps=5), samples=20, per_level=2, parts=["sobol"])
    assert list(march.guides()[0]) == ["past/H", "past/G", "past/X"]


def at_step_11(card) -> March:
    """In the middle of a history whose blocks have been merged."""
    return stepped(marches_on([Card(card)]), 11)[0]


def with_no_number(march: March, more: slice) -> None:
    """Put no number into the tangents where a checkpoint leaves them out, and to more of them."""
    lines = np.array(march.per_tangent()["T"])
    lines[:, ~in_rows(march.guides()[1]["T"], march.history.packed)] = np.nan
    lines[:, more] = np.nan
    assert np.isnan(lines).any()
    march.samples.per_tangent().fill("T", lines)


def same_end(march: March, want: March) -> bool:
    stepped([march], STEPS + 1 - march.n)
    return all(np.array_equal(march.curves[name], curve, equal_nan=True) for name, curve in want.curves.items())


@pytest.mark.gpu
def test_what_is_left_out_nobody_reads_on_a_card(card):
    """No number where the stream has nothing: the same stream, and the same bits of who goes on in place and of who takes it up.
    Twin: no number in the newest of the rows either."""
    want, march, other, twin = stepped(marches_on([Card(card)]))[0], at_step_11(card), marches_on([Card(card)])[0], at_step_11(card)
    guide = march.guides()[1]["T"]
    stream = pack(march.per_tangent()["T"], guide)
    with_no_number(march, slice(0))
    assert_array_equal(pack(march.per_tangent()["T"], guide), stream)
    parts = [{name: np.array(array) for name, array in flatten(part).items()}
             for part in (march.shared(), march.per_sample(), march.per_tangent())]
    for arrays, guides in zip(parts[1:], march.guides(), strict=True):
        arrays |= {name: unpack(pack(arrays[name], guide)) for name, guide in guides.items()}
    assert np.isfinite(parts[2]["T"]).all()
    other.restore(*parts)
    with_no_number(twin, slice(guide.begin[-1], guide.begin[-1] + guide.length[-1]))
    assert same_end(march, want) and same_end(other, want) and not same_end(twin, want)


def stopped(run, path, polls: int) -> None:
    with pytest.raises(Stopped):
        dmft.solve(run, output=path, quiet=True, stop=StopAfter(polls))


@pytest.mark.filterwarnings("ignore:diverged")
def test_a_stop_changes_no_bit(tmp_path, monkeypatch):
    """In single precision, with companions, in the middle of a history whose blocks have been merged. Twin: a checkpoint without
    the newest block."""
    run = make_run(ALGORITHMS["persistent"], steps=40, **SMALL)
    want = dmft.solve(run, quiet=True)
    stopped(run, tmp_path / "a.h5", 25)
    header = store.load_header(store.checkpoint_path(tmp_path / "a.h5"))
    packed = [name for name, kind in header.dtypes.items() if kind == np.uint8]
    assert "active/0/whole/own/past/G/0" in packed and "active/0/half_tangents/own/T/0" in packed
    got = dmft.solve(run, output=tmp_path / "a.h5", resume=True, quiet=True)
    for name, curve in want.replicas.items():
        assert_array_equal(got.replicas[name], curve, err_msg=name)

    def without_the_newest(array, guide):
        return pack(array, guide._replace(length=np.append(guide.length[:-1], 0)))

    with monkeypatch.context() as twin:
        twin.setattr("dmft.core.parts.pack", without_the_newest)
        stopped(run, tmp_path / "b.h5", 25)
    got = dmft.solve(run, output=tmp_path / "b.h5", resume=True, quiet=True)
    assert not np.array_equal(got.replicas["m"], want.replicas["m"])


@pytest.mark.parametrize("lines", [slice(0, 7), slice(2, 5), slice(3, 7), slice(0, 3), slice(0, 0), slice(3, 3), slice(7, 7)])
def test_lines_come_from_the_streams_of_all_ranks(tmp_path, lines):
    """Written by two ranks with lines, and one without; read by a rank with these."""
    array, guide = np.random.default_rng(1).normal(size=(7, 4)), Guide.through(*np.arange(16.0).reshape(4, 4)[[0, 0, 1, 1]])
    guide = guide._replace(length=np.ones(4, np.int64))
    with store.Writer(tmp_path / "a.h5", "theory", "", {}, True) as writer:
        for own in (slice(0, 3), slice(3, 7), slice(7, 7)):
            part = Part({}, {"x": array[own]}, own, 7, {"x": guide})
            for piece in pieces_of_parts({"part": part}, Comm(), 0, True):
                _put(writer, piece)
    kept = store.load_header(tmp_path / "a.h5").shapes
    assert list(kept) == ["part/own/x/0", "part/own/x/3"]
    checkpoint = Checkpoint(tmp_path / "b.h5", TheoryJob, Comm(), tmp_path / "a.h5")
    found = checkpoint._unpacked("part", "x", {name.removeprefix("part/own/"): shape for name, shape in kept.items()}, lines)
    assert_array_equal(found, array[lines])


@pytest.mark.parametrize(("damage", "words"), [("cut", "T: "), ("fewer", "lines are missing"), ("gone", "T: ")])
def test_a_stream_that_is_not_whole_is_refused_in_one_line(tmp_path, damage, words):
    """Inside of a file whose checksum is right."""
    run = make_run(ALGORITHMS["gd"], steps=20, **SMALL)
    stopped(run, tmp_path / "a.h5", 10)
    place, name = store.checkpoint_path(tmp_path / "a.h5"), "active/0/whole_tangents/own/T/0"
    found = store.load(place)
    stream = found.arrays.pop(name)
    guide = Replica(Setup.from_run(run), 0, Comm()).whole.guides()[1]["T"]
    arrays = {"cut": {name: stream[:-3]}, "fewer": {name: pack(unpack(stream)[:-1], guide)}, "gone": {}}[damage]
    store.save(place, "theory", found.run_text, {**found.arrays, **arrays}, found.attrs, checkpoint=True)
    with pytest.raises(FileError, match=f"not whole inside: .*{words}.*--force") as error:
        dmft.solve(run, output=tmp_path / "a.h5", resume=True, quiet=True)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("algorithm", ["gd", "sgd"])
def test_the_estimate_is_near_what_is_written(tmp_path, algorithm):
    """Where the samples are most of the file."""
    run = make_run(ALGORITHMS[algorithm], {"m0": 0.2}, steps=220, eta=0.01, samples=1200, replicas=1, keep_state=True,
                   history="dyadic", kernel_points=5, waiting_times=[0.0])
    dmft.solve(run, output=tmp_path / "a.h5", quiet=True)
    size = store.state_path(tmp_path / "a.h5").stat().st_size
    assert 0.5 < size / estimate(run, "theory").checkpoint_bytes < 1.2
