"""Finished nano models are found again, whole."""

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from spicejax import configs
from spicejax.worlds.nano import maker

NANO = configs.load("spice_nano").nano


def test_runs_that_start_at_once_make_one_model(tmp_path, monkeypatch):
    """Both make it, as neither finds it; the first to end is kept and the other goes on with it."""
    both, made = threading.Barrier(2), []

    def make(nano, seed, folder):
        both.wait()
        folder.mkdir()
        (folder / "corpus.jsonl").write_text("whole")
        made.append(folder)

    monkeypatch.setattr(maker, "make_items", make)
    monkeypatch.setattr(maker, "make_model", make)
    nano = dataclasses.replace(NANO, cache=str(tmp_path))
    with ThreadPoolExecutor() as pool:
        one, other = pool.map(lambda _: maker.prepare(nano, 0), range(2))
    assert len(made) == 4 and one == other == maker.prepare(nano, 0) and len(made) == 4
    assert one.documents.read_text() == "whole" and [one.documents.parent] == list(tmp_path.iterdir())


def test_a_model_that_cannot_be_put_there_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(maker, "make_items", lambda nano, seed, folder: None)
    with pytest.raises(FileNotFoundError):
        maker.prepare(dataclasses.replace(NANO, cache=str(tmp_path)), 0)


def test_no_model_is_made_where_another_is_taken(tmp_path, monkeypatch):
    def make_model(nano, seed, folder):
        raise AssertionError("the warm start takes minutes")

    monkeypatch.setattr(maker, "make_model", make_model)
    nano = dataclasses.replace(NANO, cache=str(tmp_path))
    paths = maker.prepare(nano, 0, model=False)
    assert paths.questions.is_file() and not paths.model.exists()
    assert maker.made(nano, 0, model=False) and not maker.made(nano, 0)
    with pytest.raises(AssertionError):
        maker.prepare(nano, 0)


def test_a_finished_world_is_read_where_nothing_can_be_written(tmp_path, monkeypatch):
    nano = dataclasses.replace(NANO, cache=str(tmp_path))
    paths = maker.prepare(nano, 0, model=False)
    paths.model.mkdir()
    monkeypatch.setattr(maker.tempfile, "TemporaryDirectory", None)
    assert maker.prepare(nano, 0) == paths
