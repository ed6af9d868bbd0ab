"""Where compiled code goes: beside the sources, to the user's own folder where these are read-only, or where the user says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dmft import _cache


@pytest.fixture
def chosen(monkeypatch, tmp_path):
    """chosen(**environment): the folder that `name_cache` chooses for a user whose home is tmp_path; "" for none."""
    def choose(**environment: str) -> str:
        for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"HOME": str(tmp_path), **environment}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delitem(_cache.sys.modules, "numba", raising=False)  # whose settings stay what they are
        _cache.name_cache()
        return os.environ.get("NUMBA_CACHE_DIR", "")

    return choose


def refuse(monkeypatch, *names: str) -> None:
    """Let folders with one of these words in their path be read-only. (Modes do not bind the superuser.)"""
    honest = _cache._writable
    monkeypatch.setattr(_cache, "_writable", lambda folder: not any(name in str(folder) for name in names) and honest(folder))


def test_beside_the_sources(chosen):
    assert Path(chosen()).parent == Path(_cache.__file__).parent / "__pycache__"


def test_a_read_only_package_uses_the_users_folder(chosen, monkeypatch, tmp_path):
    refuse(monkeypatch, "__pycache__")
    assert Path(chosen()).parent == tmp_path / ".cache" / "dmft" and Path(chosen()).is_dir()
    assert Path(chosen(XDG_CACHE_HOME=str(tmp_path / "xdg"))).parent == tmp_path / "xdg" / "dmft"
    refuse(monkeypatch, "__pycache__", "dmft")
    assert chosen() == ""  # nowhere to write: nothing is kept


def test_the_users_choice_stays(chosen, tmp_path):
    assert chosen(NUMBA_CACHE_DIR=str(tmp_path / "mine")) == str(tmp_path / "mine")


def test_a_folder_that_cannot_be_made_is_not_writable(tmp_path):
    (tmp_path / "file").touch()
    assert not _cache._writable(tmp_path / "file" / "folder") and _cache._writable(tmp_path / "other" / "folder")
