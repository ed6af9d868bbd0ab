"""Result files: round trip, damage, foreign and newer files, killed writers, locks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import h5py
import numpy as np
import pytest

from dmft.core import store
from dmft.core.courses import COURSE, write_course
from dmft.core.errors import FileError
from dmft.core.locks import lock

ARRAYS = {"t": np.arange(5.0), "replicas/m": np.ones((2, 5)), "diverged": np.zeros(3, bool), "empty": np.empty((0, 4))}


def _write(path, **attrs):
    store.save(path, "theory", "title = \"x\"\n", ARRAYS, {"outcome": "done", **attrs})


def test_round_trip_with_provenance(tmp_path):
    path = tmp_path / "new" / "a.h5"
    _write(path, ranks=3, wall_time=1.5)
    stored = store.load(path)
    assert (stored.kind, stored.schema_version, stored.run_text) == ("theory", store.SCHEMA_VERSION, "title = \"x\"\n")
    assert (stored.attrs["outcome"], stored.attrs["ranks"], stored.attrs["wall_time"]) == ("done", 3, 1.5)
    assert stored.attrs["numpy_version"] == np.__version__ and stored.attrs["package_version"]
    assert os.uname().nodename not in "".join(str(value) for value in stored.attrs.values())
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(stored.arrays[name], array)
        assert stored.arrays[name].dtype == array.dtype
    assert os.listdir(path.parent) == ["a.h5"]


def test_lazy_reading(tmp_path):
    path = tmp_path / "a.h5"
    _write(path)
    header = store.load_header(path)
    assert header.shapes["replicas/m"] == (2, 5) and not header.arrays
    np.testing.assert_array_equal(store.read(path, "t", slice(1, 3)), [1.0, 2.0])
    with pytest.raises(FileError, match="no dataset 'x'"):
        store.read(path, "x")


def test_streaming_writer_appears_at_the_end_only(tmp_path):
    path = tmp_path / "a.h5"
    with store.Writer(path, "simulation", "", {}) as writer:
        writer.create("m", (3, 4))
        for row in range(3):
            writer.write("m", row, np.full(4, row))
        assert not path.exists()
    np.testing.assert_array_equal(store.load(path).arrays["m"][:, 0], [0, 1, 2])


def test_an_error_while_writing_keeps_the_old_file(tmp_path):
    path = tmp_path / "a.h5"
    _write(path)
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError), store.Writer(path, "theory", "", {}) as writer:
        writer.create("m", (3,))
        raise ZeroDivisionError
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.h5"]


@pytest.mark.parametrize("array", [np.array(["text"]), np.array([object()]), np.array([1j])])
def test_only_plain_numbers_are_stored(tmp_path, array):
    with pytest.raises(TypeError, match="only plain numbers"):
        store.save(tmp_path / "a.h5", "theory", "", {"x": array}, {})
    assert not os.listdir(tmp_path)


def test_every_flipped_bit_is_noticed(tmp_path):
    path = tmp_path / "a.h5"
    _write(path)
    good = path.read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(200):
        damaged = bytearray(good)
        damaged[rng.integers(len(good))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        with pytest.raises(FileError) as caught:
            store.load(path)
        assert "\n" not in str(caught.value)


def test_every_cut_is_noticed(tmp_path):
    path = tmp_path / "a.h5"
    _write(path)
    good = path.read_bytes()
    for length in range(0, len(good) - 80, 97):        # the last 73 bytes are the checksum alone
        path.write_bytes(good[:length])
        with pytest.raises(FileError):
            store.load(path)
        with pytest.raises(FileError):
            store.load_header(path)


def test_foreign_newer_and_missing_files(tmp_path):
    path = tmp_path / "a.h5"
    with pytest.raises(FileError, match="No such file"):
        store.load(path)
    with pytest.raises(FileError, match="not a file"):
        store.load(tmp_path)
    path.write_text("not hdf5")
    with pytest.raises(FileError, match="not HDF5"):
        store.load(path)
    with h5py.File(path, "w") as file:
        file["x"] = 1.0
    with pytest.raises(FileError, match="not a result of this package"):
        store.load(path)
    _write(path)
    with h5py.File(path, "r+") as file:
        file.attrs["schema_version"] = 99
    with pytest.raises(FileError, match="newer version .schema 99"):
        store.load(path)


def test_unwritable_places_give_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be written"):
        _write(tmp_path / "file" / "a.h5")


def test_checkpoints(tmp_path):
    path = tmp_path / "a.h5"
    assert store.checkpoint_header(path) is None
    store.save(store.checkpoint_path(path), "theory", "run", {"x": np.arange(3)}, {"step": 7}, checkpoint=True)
    stored = store.checkpoint_header(path)
    assert stored is not None and stored.is_checkpoint and stored.attrs["step"] == 7 and not path.exists()
    place = store.checkpoint_path(path)
    place.write_bytes(place.read_bytes()[:-200])
    with pytest.raises(FileError, match="damaged.*--force"):
        store.checkpoint_header(path)
    store.remove_checkpoint(path)
    store.remove_checkpoint(path)
    assert not os.listdir(tmp_path)


WRITER = textwrap.dedent("""
    import sys, itertools, numpy as np
    from dmft.core import store
    for number in itertools.count():
        store.save(sys.argv[1], "theory", str(number), {"a": np.full(300_000, number), "b": np.full(300_000, number)}, {})
        print(number, flush=True)
""")


@pytest.mark.long
def test_a_killed_writer_leaves_the_old_file_or_the_new_one(tmp_path):
    """SIGKILL at random moments: what is under the final name is always whole and of one write."""
    path, rng = tmp_path / "a.h5", np.random.default_rng(5)
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.05))
            process.send_signal(signal.SIGKILL)
        stored = store.load(path)
        assert set(stored.arrays["a"]) == set(stored.arrays["b"]) == {int(stored.run_text)}


def test_a_second_job_is_refused_and_strays_are_removed(tmp_path):
    path = tmp_path / "a.h5"
    (tmp_path / "a.h5.123.part").write_text("left by a killed writer")
    (tmp_path / "b.h5.123.part").write_text("another job's")
    with lock(path):
        assert not (tmp_path / "a.h5.123.part").exists() and (tmp_path / "b.h5.123.part").exists()
        with pytest.raises(FileError, match="another job is writing it .process"), lock(path):
            pass
    with lock(path):
        pass
    assert sorted(os.listdir(tmp_path)) == ["b.h5.123.part"]


def test_the_lock_of_a_dead_job_is_free(tmp_path):
    path = tmp_path / "a.h5"
    holder = ("import sys, time\nfrom dmft.core.locks import lock\n"
              "with lock(sys.argv[1]):\n    print('held', flush=True)\n    time.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", holder, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(FileError), lock(path):
            pass
        process.kill()
        process.wait()
    with lock(path):
        pass


def _unsealed(path, change):
    """A file that another program has changed."""
    with open(path, "r+b") as raw:
        raw.truncate(path.stat().st_size - store.SEAL_LENGTH)
    with h5py.File(path, "r+") as file:
        change(file)


@pytest.mark.parametrize("several", [1, 1000])
def test_a_declared_terabyte_is_refused_before_memory_is_asked_for(tmp_path, several, monkeypatch):
    """In one dataset, or in many that are each within bounds: no byte is allocated, by nobody who reads."""
    def declare(file):
        for k in range(several):
            file.create_dataset(f"huge{k}", (10**12 // 8 // several,), "f8")

    _write(tmp_path / "a.h5")
    _unsealed(tmp_path / "a.h5", declare)
    assert (tmp_path / "a.h5").stat().st_size < 1_000_000
    monkeypatch.setattr(h5py.Dataset, "__getitem__", lambda *_: pytest.fail("a dataset is read"))
    for reader in (store.load, store.load_header, lambda path: store.read(path, "huge0")):
        if several == 1 or reader in (store.load, store.load_header):
            with pytest.raises(FileError, match="declares .* more than a file of .* can hold"):
                reader(tmp_path / "a.h5")


def test_data_in_other_files_are_not_followed(tmp_path):
    """Nor are those that this package never writes: text, and nothing at all."""
    (tmp_path / "secret").write_bytes(b"x" * 80)
    layout = h5py.VirtualLayout((10,), "f8")
    layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "m", (10,))
    changes = {"external": lambda file: file.create_dataset("x", (10,), "f8", external=[(str(tmp_path / "secret"), 0, 80)]),
               "virtual": lambda file: file.create_virtual_dataset("x", layout),
               "text": lambda file: file.create_dataset("x", data="words"),
               "none": lambda file: file.create_dataset("x", dtype="f8")}
    for name, change in changes.items():
        path = tmp_path / f"{name}.h5"
        _write(path)
        _unsealed(path, change)
        for reader in (store.load, lambda path: store.read(path, "x")):
            with pytest.raises(FileError, match="lies in another file|holds no numbers"):
                reader(path)


def test_a_checkpoint_without_its_checksum_is_refused(tmp_path):
    """It may have been cut, or changed by another program; a result is read all the same."""
    store.save(store.checkpoint_path(tmp_path / "a.h5"), "theory", "run", {"m": np.arange(3.0)}, {}, checkpoint=True)
    _unsealed(store.checkpoint_path(tmp_path / "a.h5"), lambda file: None)
    with pytest.raises(FileError, match="cut short, or changed by another program; --force starts afresh"):
        store.checkpoint_header(tmp_path / "a.h5")


def test_a_disk_that_refuses_a_write_is_remembered():
    """HDF5 crashes when a write fails under it: the file takes everything, and tells at the end."""
    with store._Sink("/dev/full", "w") as sink:
        assert sink.write(b"0123456789") == 10
        with pytest.raises(OSError, match="No space left"):
            sink.check()


def test_a_checkpoint_that_vanishes_while_it_is_read_is_none(tmp_path, monkeypatch):
    """Its job ended between two looks, and removed it after putting the result in place."""
    store.save(store.checkpoint_path(tmp_path / "a.h5"), "theory", "run", {}, {}, checkpoint=True)
    honest = store._verify

    def verify(path, *rest):
        found = honest(path, *rest)
        store.remove_checkpoint(tmp_path / "a.h5")
        return found

    monkeypatch.setattr(store, "_verify", verify)
    assert store.checkpoint_header(tmp_path / "a.h5") is None
    assert store.checkpoint_header(tmp_path / "a.h5") is None


def test_a_job_that_was_killed_before_its_first_checkpoint_is_told_apart(tmp_path):
    """Its lock stays: whoever looks for the result learns that, not only that there is no file."""
    with pytest.raises(FileError, match="No such file"):
        store.load_header(tmp_path / "a.h5")
    (tmp_path / "a.h5.lock").write_text("process 12 on node3")
    with pytest.raises(FileError, match=r"its job \(process 12 on node3\) has not come to its first checkpoint, or was killed"):
        store.load_header(tmp_path / "a.h5")


def test_a_packed_curve_is_read_as_any_other(tmp_path):
    """Whole or a part of it; in the header as what it is, not as it lies there."""
    curve = np.append(np.sin(np.arange(3000) / 500), np.full(40, np.nan))
    with store.Writer(tmp_path / "a.h5", "theory", "", {}) as writer:
        write_course(writer.file, "m", curve)
        writer.create("n", (2,))
    header, found = store.load_header(tmp_path / "a.h5"), store.load(tmp_path / "a.h5")
    assert header.shapes == {"m": (3040,), "n": (2,)} and header.dtypes["m"] == np.float64
    np.testing.assert_array_equal(found.arrays["m"], curve)
    np.testing.assert_array_equal(store.read(tmp_path / "a.h5", "m", slice(5, 9)), curve[5:9])


@pytest.mark.parametrize(("stream", "words"), [
    (np.zeros(9), "no packed curve"), (np.zeros(7, np.uint8), "no packed curve"), (np.zeros((4, 8), np.uint8), "no packed curve"),
    (np.full(40, 255, np.uint8), "no packed curve"), (np.array([1 << 50, 0, 0], np.int64).view(np.uint8), "declares"),
    (np.array([30, 20, 0], np.int64).view(np.uint8), "cut short")])
def test_what_is_no_packed_curve_is_refused(tmp_path, stream, words):
    with store.Writer(tmp_path / "a.h5", "theory", "", {}) as writer:
        writer.create("m", stream.shape, stream.dtype)
        writer.write("m", (), stream)
        writer.file["m"].attrs[COURSE] = True
    with pytest.raises(FileError, match=words):
        store.load(tmp_path / "a.h5")


def test_a_stream_of_a_declared_terabyte_is_refused(tmp_path):
    """Whatever it says of the curve in it."""
    with store.Writer(tmp_path / "a.h5", "theory", "", {}) as writer:
        item = writer.file.create_dataset("m", (1 << 40,), np.uint8, chunks=(1 << 16,))
        item[:8] = np.array([3], np.int64).view(np.uint8)
        item.attrs[COURSE] = True
    with pytest.raises(FileError, match="declares"):
        store.load(tmp_path / "a.h5")
