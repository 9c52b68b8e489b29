"""What a run names on the disk is found from any folder, and after its folder was moved."""

import json
import os

import pytest

from spicejax import config as configuration
from spicejax import configs
from spicejax.report import places
from spicejax.run import preflight
from spicejax.run.config import RunConfig
from spicejax.run.store import record


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Files of a user about the work folder top/runs/a, where their command is given in top."""
    top = tmp_path / "top"
    for folder in ("runs/a/first", "runs/cache", "models/m", "data", "runs/chain/1/policy", "runs/chain/2", "Org/Name"):
        (top / folder).mkdir(parents=True)
    for file in ("data/x.jsonl", "data/y.jsonl", "q.jsonl", "data/rules.py"):
        (top / file).write_text("{}\n")
    monkeypatch.chdir(top)
    return top


CONFIG = {
    "name": "x",
    "model": {"path": "models/m"},
    "corpus": {"source": "data/x.jsonl, data/*.jsonl,facts:moons,rivers,problems,tfds:a/b:train"},
    "eval": {"tasks": "q.jsonl,facts:corpus"},
    "nano": {"cache": "runs/cache"},
    "seats": {"judge": "package:judge", "challenger": "runs/a/first"},
    "retrieval": None,
    "verifier": "data/rules.py:near",
}


def test_paths_are_found_from_anywhere(tree, tmp_path, monkeypatch):
    kept = json.loads(json.dumps(places.kept(CONFIG, tree / "runs" / "a")))
    assert kept["seats"] == {"judge": "package:judge", "challenger": "./first"} and kept["name"] == "x"
    monkeypatch.chdir(tmp_path)
    found = places.found(kept, tree / "runs" / "a")
    assert found["model"]["path"] == f"{tree}/models/m" and found["nano"]["cache"] == f"{tree}/runs/cache"
    assert found["corpus"]["source"] == (
        f"{tree}/data/x.jsonl,{tree}/data/*.jsonl,facts:moons,rivers,problems,tfds:a/b:train"
    )
    assert found["eval"]["tasks"] == f"{tree}/q.jsonl,facts:corpus" and found["seats"]["judge"] == "package:judge"
    assert found["seats"]["challenger"] == f"{tree}/runs/a/first"
    assert found["verifier"] == f"{tree}/data/rules.py:near"
    assert places.public(found)["verifier"] == "rules.py:near"
    assert places.found(found, tree / "runs" / "a") == found
    engine = {"retrieval": {"engine": "my.rules:find"}, "verifier": "math_verify"}
    assert places.found(places.kept(engine, tree), tree) == engine


def test_what_is_inside_moves_along(tree, tmp_path, caplog):
    """The work folder alone: what is inside goes along. All of it: what lay about it is found there too."""
    kept = places.kept(CONFIG, tree / "runs" / "a")
    os.rename(tree / "runs" / "a", tmp_path / "b")
    found = places.found(kept, tmp_path / "b")
    assert found["seats"]["challenger"] == f"{tmp_path}/b/first" and found["model"]["path"] == f"{tree}/models/m"
    os.rename(tmp_path / "b", tree / "runs" / "a")
    os.rename(tree, tmp_path / "other")
    assert not caplog.records
    found = places.found(kept, tmp_path / "other" / "runs" / "a")
    assert found == places.found(kept, tmp_path / "other" / "runs" / "a")
    said = f"{tree}/models/m is gone; {tmp_path}/other/models/m, which ends like it, is taken in its place"
    assert [record.message for record in caplog.records].count(said) == 1
    assert found["model"]["path"] == f"{tmp_path}/other/models/m"
    assert found["nano"]["cache"] == f"{tmp_path}/other/runs/cache"


def test_a_stage_starts_from_the_one_before_wherever_the_chain_is(tree, tmp_path):
    chain = tree / "runs" / "chain"
    kept = places.kept({"model": {"path": "runs/chain/1/policy"}}, chain / "2")
    assert kept == {"model": {"path": "../1/policy"}}
    os.rename(chain, tmp_path / "moved")
    assert places.found(kept, tmp_path / "moved" / "2") == {"model": {"path": f"{tmp_path}/moved/1/policy"}}


@pytest.mark.parametrize("path", ["package:llm", "Qwen/Qwen3-4B", "Org/Name", "", "/no/such/place"])
def test_names_of_others_stay(tree, path):
    """A name on the Hub is a folder only where there is one."""
    kept = places.kept({"model": {"path": path}}, tree / "runs" / "a")["model"]["path"]
    assert kept == (f"{tree}/Org/Name" if path == "Org/Name" else path)
    assert places.found({"model": {"path": kept}}, tree / "runs" / "a") == {"model": {"path": kept}}


def test_what_is_shown_names_no_folders_of_a_machine(tree):
    shown = places.public(places.kept(CONFIG, tree / "runs" / "a"))
    assert str(tree) not in json.dumps(shown) and shown["model"]["path"] == "m"
    assert shown["corpus"]["source"].startswith("x.jsonl,*.jsonl,facts:moons,rivers")


def test_a_record_starts_the_same_run_from_another_folder(tree, tmp_path, monkeypatch):
    cfg = configuration.override(
        configs.load("spice_nano"), {"corpus.source": "data/x.jsonl", "model.path": "models/m"}
    )
    record.write(tree / "runs" / "a", cfg)
    monkeypatch.chdir(tmp_path)
    (again,) = configs.stages(str(tree / "runs" / "a" / "config.json"))
    assert again.corpus.source == f"{tree}/data/x.jsonl" and again.nano is not None
    assert again.nano.cache == f"{tree}/runs/cache" and again.model.path == f"{tree}/models/m"


def test_a_run_goes_on_under_another_path_and_not_with_other_files(tree, tmp_path, monkeypatch):
    run, recipe = tree / "runs" / "a", configs.load("spice_nano")
    cfg = configuration.override(recipe, {"corpus.source": "data/x.jsonl", "model.path": "models/m"})
    kept = places.kept(configuration.to_json(cfg), run)
    os.rename(tree, tmp_path / "other")
    run = tmp_path / "other" / "runs" / "a"
    monkeypatch.chdir(run)
    words = {"corpus.source": "../../data/x.jsonl", "model.path": f"{tmp_path}/other/models/m"}

    def same(saved, changes):
        place = run / "checkpoints"
        preflight.require_same(places.found(saved, run), configuration.override(cfg, changes), place)

    same(kept, words)
    with pytest.raises(ValueError, match=r"corpus.source: .*x\.jsonl.* -> .*y\.jsonl"):
        same(kept, words | {"corpus.source": f"{tmp_path}/other/data/y.jsonl"})
    (tmp_path / "x.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match="corpus.source"):  # of the same name, while the one of before is still there
        same(kept, words | {"corpus.source": f"{tmp_path}/x.jsonl"})
    assert isinstance(cfg, RunConfig)
