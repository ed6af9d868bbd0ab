"""Checkpoints of a history in blocks are packed without loss: the same bits after a stop, and nobody reads what is left out."""

from __future__ import annotations

from collections import deque

import h5py
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import dmft
from dmft.core import store
from dmft.core.checkpoint import Checkpoint, _below, _put
from dmft.core.courses import COURSE
from dmft.core.errors import FileError, Stopped
from dmft.core.packing import Guide, declared, pack, unpack
from dmft.core.parallel import Comm
from dmft.core.parts import Part, Piece, pieces_of_parts, send_parts
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
from workbench.inspection.live import partial_theory

SMALL = {"samples": 64, "replicas": 1, "history": "dyadic", "blocks_per_level": 4}
ALONE = {**SMALL, "companions": False}


def arrays_and_guides(march: March):
    """Every array that is packed: its name, what it holds, and its guide."""
    for arrays, guides in zip((march.per_sample(), march.per_tangent()), march.guides(), strict=True):
        for name, guide in guides.items():
            yield name, arrays[name], guide


def back(array: np.ndarray, guide: Guide) -> np.ndarray:
    """What comes back of an array."""
    return unpack(pack(np.ascontiguousarray(array), guide), array.shape)


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
        assert_array_equal(back(array, guide).view(np.uint8), np.ascontiguousarray(array).view(np.uint8), err_msg=name)
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
        arrays |= {name: back(arrays[name], guide) for name, guide in guides.items()}
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
    monkeypatch.setattr("dmft.core.checkpoint.LONG_COURSE", 20)
    run = make_run(ALGORITHMS["persistent"], steps=40, **SMALL)
    want = dmft.solve(run, quiet=True)
    stopped(run, tmp_path / "a.h5", 25)
    header = store.load_header(store.checkpoint_path(tmp_path / "a.h5"))
    packed = [name for name, kind in header.dtypes.items() if kind == np.uint8]
    assert "active/0/whole/own/past/G/0" in packed and "active/0/half_tangents/own/T/0" in packed
    curve = "active/0/whole/shared/curves/m"
    with h5py.File(header.path) as file:
        assert file[curve].attrs[COURSE] and file[curve].dtype == np.uint8
    assert header.shapes[curve] == (41,) and header.dtypes[curve] == np.dtype(float)
    assert np.isfinite(store.read(header.path, curve)).sum() == store.read(header.path, "active/0/whole/shared/weights/n") == 25
    assert np.isfinite(partial_theory(header).replicas["m"]).sum() == 25
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


ARRAY, GUIDE = np.random.default_rng(1).normal(size=(14, 4)), Guide.through(*np.arange(16.0).reshape(4, 4)[[0, 0, 1, 1]])
GUIDE = GUIDE._replace(length=np.ones(4, np.int64))


def part_of(lines: slice) -> Part:
    return Part({"s": np.arange(3)}, {"x": ARRAY[lines], "y": ARRAY[lines, 0]}, lines, len(ARRAY), {"x": GUIDE})


def read_back(path, lines: slice) -> np.ndarray:
    kept = _below("part/own", store.load_header(path).shapes)
    return Checkpoint(path.with_name("b.h5"), TheoryJob, Comm(), path)._lines("part", part_of(lines), kept, "x")


@pytest.mark.parametrize("lines", [slice(0, 14), slice(2, 5), slice(3, 14), slice(0, 3), slice(0, 0), slice(3, 3), slice(14, 14)])
@pytest.mark.parametrize(("at_once", "begins"), [(1000, [0, 3]), (2, [0, 2, 3, 5, 7, 9, 11, 13])], ids=["whole", "in turns"])
def test_lines_come_from_the_streams_of_all_ranks(tmp_path, monkeypatch, lines, at_once, begins):
    """Written by two ranks with lines, and one without, some lines at a time; read by a rank with these. Streams go by number: 11
    comes after 9."""
    monkeypatch.setattr("dmft.core.parts.STREAM_BYTES", at_once * ARRAY[0].nbytes)
    with store.Writer(tmp_path / "a.h5", "theory", "", {}, True) as writer:
        for own in (slice(0, 3), slice(3, 14), slice(14, 14)):
            for piece in pieces_of_parts({"part": part_of(own)}, Comm(), 0, own.start == 0):
                _put(writer, piece)
    names = [f"part/own/x/{begin}" for begin in begins]
    assert sorted(store.load_header(tmp_path / "a.h5").shapes) == sorted([*names, "part/own/y", "part/shared/s"])
    assert_array_equal(read_back(tmp_path / "a.h5", lines), ARRAY[lines])


class Wire(Comm):
    """What one rank sends, the root receives in this order."""

    def __init__(self):
        super().__init__()
        self.under_way = deque()

    def send_array(self, array, to):
        self.under_way.append(np.array(array))

    def recv_array(self, rank):
        return self.under_way.popleft()


@pytest.mark.parametrize("lines", [slice(0, 14), slice(3, 8), slice(14, 14)])
def test_what_another_rank_sends_is_what_the_root_would_have(monkeypatch, lines):
    monkeypatch.setattr("dmft.core.parts.STREAM_BYTES", 2 * ARRAY[0].nbytes)
    wire, parts = Wire(), {"part": part_of(lines)}
    send_parts(parts, wire, True)
    for mine, sent in zip(pieces_of_parts(parts, wire, 0, True), pieces_of_parts(None, wire, 1, True), strict=True):
        assert mine._replace(array=None) == sent._replace(array=None)
        assert_array_equal(sent.array, mine.array)
    assert not wire.under_way


@pytest.mark.parametrize(("streams", "words"), [
    ({}, "lines are missing"), ({1: ARRAY[1:]}, "lines are missing"), ({0: ARRAY[:13]}, "lines are missing"),
    ({0: ARRAY[:5], 6: ARRAY[6:]}, "lines are missing"), ({0: ARRAY[:5], 4: ARRAY[4:]}, "other lines"),
    ({0: np.concatenate([ARRAY, ARRAY])}, "other lines"), ({0: ARRAY[:4], 4: ARRAY[4:, :3]}, "other lines"),
    ({0: ARRAY.astype(np.float32)}, "other lines"), ({0: np.ones((14, 5))}, "longer lines"), ({0: ARRAY[:, :3]}, None)])
def test_streams_that_are_not_of_this_run_are_refused(tmp_path, streams, words):
    """Cut elsewhere, of another type, or longer than what they would be put into; shorter lines are those of a shorter run."""
    with store.Writer(tmp_path / "a.h5", "theory", "", {}, True) as writer:
        _put(writer, Piece("part/own/y", ARRAY[:, 0], slice(0, 14), 14))
        for begin, array in streams.items():
            guide = Guide(*(each[: array.shape[1]] for each in GUIDE))
            _put(writer, Piece(f"part/own/x/{begin}", pack(np.ascontiguousarray(array), guide)))
    if words:
        with pytest.raises(FileError, match=f"own/x: .*{words}.*--force"):
            read_back(tmp_path / "a.h5", slice(0, 14))
    else:
        assert_array_equal(read_back(tmp_path / "a.h5", slice(0, 14)), streams[0])


def test_a_run_of_one_step_is_extended(tmp_path):
    """It was too short for blocks, and has kept every step unpacked."""
    run, longer = (make_run(ALGORITHMS["gd"], steps=steps, keep_state=True, **ALONE) for steps in (1, 30))
    dmft.solve(run, output=tmp_path / "a.h5", quiet=True)
    assert "active/0/whole_tangents/own/T" in store.load_header(store.state_path(tmp_path / "a.h5")).shapes
    assert_array_equal(dmft.solve(longer, output=tmp_path / "a.h5", resume=True, quiet=True).m, dmft.solve(longer, quiet=True).m)


def test_the_past_is_foretold_in_order_of_time():
    """Not in that of the slots, which are used again."""
    march = make_march(make_run(ALGORITHMS["gd"], steps=70), per_level=4, samples=20)
    for _ in range(60):
        march.step()
    order = march.history.order
    assert (np.diff(march.history.first[order]) > 0).all() and (np.diff(order) < 0).any()
    past, tangents = march.guides()[0]["past/H"], march.guides()[1]["T"]
    assert_array_equal(past.begin, order)
    assert_array_equal(tangents.begin, march.history.offset[order])
    assert_array_equal(tangents.length, march.history.stop[order])


@pytest.mark.parametrize(("damage", "words"), [("cut", "whole inside: .*T: "), ("fewer", "whole inside: .*T: lines are missing"),
                                               ("gone", "whole inside: .*T: "), ("narrow", "state of this run: T is float32"),
                                               ("named", "whole inside: .*T: "), ("bare", "whole inside: .*T: "),
                                               ("plain", "state of this run: state/h is float64"),
                                               ("whose", "other groups than numbers")])
def test_a_state_that_is_not_of_this_run_is_refused_in_one_line(tmp_path, damage, words):
    """Inside of a file whose checksum is right."""
    run = make_run(ALGORITHMS["gd"], steps=20, **ALONE)
    stopped(run, tmp_path / "a.h5", 10)
    place, name = store.checkpoint_path(tmp_path / "a.h5"), "active/0/whole_tangents/own/T/0"
    found = store.load(place)
    stream = found.arrays.pop(name)
    guide = Replica(Setup.from_run(run), 0, Comm()).whole.guides()[1]["T"]
    lines = unpack(stream, declared(stream)[0])
    narrow = pack(np.ascontiguousarray(lines[:, :-4]), Guide(*(each[:0] for each in guide)))
    arrays = {"cut": {name: stream[:-3]}, "fewer": {name: pack(lines[:-1], guide)}, "gone": {}, "narrow": {name: narrow},
              "named": {name: stream, f"{name}x": stream}, "bare": {name: np.uint8(3)}, "whose": {"active/x/y": stream},
              "plain": {name: stream, "active/0/whole/own/state/h": np.zeros((64, 1))}}[damage]
    store.save(place, "theory", found.run_text, {**found.arrays, **arrays}, found.attrs, checkpoint=True)
    with pytest.raises(FileError, match=words) as error:
        dmft.solve(run, output=tmp_path / "a.h5", resume=True, quiet=True)
    assert len(str(error.value).splitlines()) == 1


WHOLE = "active/0/whole"
OF_ANOTHER_RUN = {
    "too high slots": (f"{WHOLE}/shared/history/order", lambda a: a + 10**8, "do not follow"),
    "a slot twice": (f"{WHOLE}/shared/history/order", lambda a: a * 0 + a[0], "do not follow"),
    "one size": (f"{WHOLE}/shared/history/size", lambda a: a[:1], "size is int64"),
    "other sizes": (f"{WHOLE}/shared/history/size", lambda a: a * 2, "do not follow"),
    "one first step": (f"{WHOLE}/shared/history/first", lambda a: a[:1], "first is int64"),
    "first steps as real numbers": (f"{WHOLE}/shared/history/first", lambda a: a + 0.5, "first is float64"),
    "a matrix that would be repeated": (f"{WHOLE}/shared/weights/Q", lambda a: a[:1, :1], "Q is float64"),
    "a row that would be repeated": (f"{WHOLE}/shared/weights/Q_row", lambda a: a[:1], "Q_row is float64"),
    "a later step": (f"{WHOLE}/shared/weights/n", lambda a: a * 0 + 10**9, "a history of"),
    "an earlier step": (f"{WHOLE}/shared/weights/n", lambda a: a - 1, "a history of"),
    "a short curve": (f"{WHOLE}/shared/curves/delta_nu", lambda a: a[:1], "delta_nu is float64"),
    "another m": (f"{WHOLE}/shared/curves/m", lambda a: a[:5], "history is in other blocks|is float64"),
    "more lines": (f"{WHOLE}/own/state/h", lambda a: np.append(a, a), "state/h has 128 lines, not 64"),
    "fewer lines": (f"{WHOLE}/own/state/h", lambda a: a[:40], "state/h is float64"),
    "whole numbers": (f"{WHOLE}/own/state/h", lambda a: a.astype(np.uint8), "state/h is uint8"),
    "no curve": (f"{WHOLE}/shared/curves/delta_nu", None, "it has no 'delta_nu'"),
    "a replica that is none": ("active/00/x", lambda _: np.zeros(3), "other groups than numbers"),
    "a replica without groups": ("active/7", lambda _: np.zeros(3), "other groups than numbers"),
}


def test_what_ranks_share_is_held_to_the_run_too(tmp_path):
    """Compiled loops take these as indices, and NumPy repeats what is too short."""
    run = make_run(ALGORITHMS["gd"], steps=20, **ALONE)
    stopped(run, tmp_path / "a.h5", 10)
    place = store.checkpoint_path(tmp_path / "a.h5")
    found = store.load(place)
    for case, (name, change, words) in OF_ANOTHER_RUN.items():
        arrays = dict(found.arrays)
        old = arrays.pop(name, None)
        if change:
            arrays[name] = np.asarray(change(old))
        store.save(place, "theory", found.run_text, arrays, found.attrs, checkpoint=True)
        with pytest.raises(FileError, match=f"not the state of .*({words})") as error:
            dmft.solve(run, output=tmp_path / "a.h5", resume=True, quiet=True)
        assert len(str(error.value).splitlines()) == 1, case


@pytest.mark.parametrize("algorithm", ["gd", "sgd"])
def test_the_estimate_is_near_what_is_written(tmp_path, algorithm):
    """Where the samples are most of the file."""
    run = make_run(ALGORITHMS[algorithm], {"m0": 0.2}, steps=220, eta=0.01, samples=1200, replicas=1, keep_state=True,
                   history="dyadic", kernel_points=5, waiting_times=[0.0])
    dmft.solve(run, output=tmp_path / "a.h5", quiet=True)
    size = store.state_path(tmp_path / "a.h5").stat().st_size
    assert 0.5 < size / estimate(run, "theory").checkpoint_bytes < 1.2
