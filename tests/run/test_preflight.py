"""What a configuration names and is not there is said at once: no world is made and no model loaded."""

import json
from pathlib import Path

import pytest

from spicejax import commands, configs
from spicejax import config as configuration
from spicejax.run import golds, preflight
from spicejax.types import Answer


@pytest.mark.parametrize(
    ("config", "words", "message"),
    [
        ("spice_nano", ["corpus.source=/nowhere"], "'/nowhere' does not exist"),
        ("spice_nano", ["eval.tasks=/nowhere.jsonl"], "/nowhere.jsonl is no file"),
        (
            "spice_nano",
            ["eval.tasks=facts:countries,/nowhere.jsonl,facts:nowhere"],
            "two sets of questions called 'nowhere'",
        ),
        ("spice_nano", ["model.path=/nowhere"], "/nowhere: no such folder"),
        ("spice_nano", ["seats.challenger=/nowhere"], "/nowhere: no such folder"),
        ("ssp_nano", ["retrieval.index=/nowhere", "retrieval.encoder=x"], "/nowhere is no index"),
        ("rlvr_nano", ["corpus.source=/nowhere.jsonl"], "/nowhere.jsonl is no file"),
        ("ssp_qwen7b", ["corpus.source=a.jsonl", "model.path=b"], "give retrieval.index=FOLDER"),
        ("spice_qwen4b", ["corpus.source=facts"], "brings no weights"),
        ("spice_qwen4b", ["model.path=/nowhere"], "brings no documents"),
    ],
)
def test_what_is_not_there_is_named(config, words, message, tmp_path):
    cfg = configuration.parse(configs.load(config), words)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        preflight.require(cfg, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_beginning_of_each_source_is_read(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "' + "word " * 50 + '"}\n')
    (tmp_path / "b.parquet").write_bytes(b"PAR?")
    cfg = configuration.parse(configs.load("spice_nano"), [f"corpus.source={tmp_path}/a.jsonl"])
    preflight.require(cfg, tmp_path)
    both = configuration.parse(cfg, [f"corpus.source={tmp_path}/a.jsonl,{tmp_path}/b.parquet"])
    with pytest.raises(ValueError, match="b.parquet"):
        preflight.require(both, tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="file is no folder that can be written"):
        preflight.require(configs.load("spice_nano"), tmp_path / "file" / "run")


def test_a_set_whose_name_begins_with_none_is_a_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for tasks in ("none", "none,", ""):
        preflight.require(configuration.override(configs.load("spice_nano"), {"eval.tasks": tasks}), tmp_path)
    cfg = configuration.override(configs.load("spice_nano"), {"eval.tasks": "none.jsonl"})
    with pytest.raises(FileNotFoundError, match=r"none\.jsonl"):
        preflight.require(cfg, tmp_path)
    (tmp_path / "none.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}\n')
    preflight.require(cfg, tmp_path)


def test_a_plan_looks_too_and_a_run_makes_nothing_first(tmp_path, capsys):
    words = ["--config=spice_nano", f"--workdir={tmp_path}", "corpus.source=/nowhere"]
    assert commands.run("train", [*words, "--dry_run"]) == 2
    assert "'/nowhere' does not exist" in capsys.readouterr().err
    assert commands.run("train", words) == 2
    assert not list(tmp_path.iterdir())


def _questions(path, *answers):
    path.write_text(
        "".join(json.dumps({"question": "q?", "answer": a, "answer_type": "String"}) + "\n" for a in answers)
    )
    return path


@pytest.mark.parametrize(
    ("config", "lost"), [("rlvr_smollm2", "So:\nit is 7"), ("r1_searcher_smollm2", "A"), ("ssp_smollm2", "the")]
)
def test_right_answers_that_nothing_matches_are_found(tmp_path, caplog, config, lost):
    several = _questions(tmp_path / "several.jsonl", *["Oslo"] * 8, lost, lost)
    cfg = configuration.parse(configs.load(config), ["eval.tasks=none", f"corpus.source={several}"])
    with pytest.raises(
        ValueError, match=rf"several.jsonl: 2 of 10 right answers .* first {lost!r}".replace("\\", r"\\")
    ):
        preflight.require(cfg, tmp_path, planned=True, first=False)
    one = _questions(tmp_path / "one.jsonl", *["Oslo"] * 9, lost)
    with caplog.at_level("WARNING", "spicejax"):
        preflight.require(configuration.parse(cfg, [f"corpus.source={one}"]), tmp_path, planned=True, first=False)
    assert "one.jsonl: 1 of 10 right answers would be judged wrong" in caplog.text


def test_held_out_answers_are_asked_too_and_large_sets_by_a_part(tmp_path, caplog):
    with pytest.raises(ValueError, match="a.jsonl: 1 of 1 right answers"):
        tasks = f"eval.tasks={_questions(tmp_path / 'a.jsonl', '?')}"
        preflight.require(configuration.parse(configs.load("spice_nano"), [tasks]), tmp_path)
    seen = []
    golds.require(
        "set", [Answer(str(k)) for k in range(100_000)], lambda asked: [not seen.append(a.text) for a in asked]
    )
    assert len(seen) == len(set(seen)) == golds.MOST and seen[:2] == ["0", "100"]


def test_a_field_that_is_new_or_gone_stops_no_run_that_did_without_it(monkeypatch):
    cfg, place = configs.load("spice_nano"), Path("DIR/checkpoints")
    saved = configuration.to_json(cfg)
    del saved["seats"], saved["learner"]["dual_clip"]
    saved["learner"]["old_bound"] = 0.0
    with pytest.raises(ValueError, match=r"learner.old_bound: 0.0 -> '<absent>'\)"):
        preflight.require_same(saved, cfg, place)
    monkeypatch.setitem(preflight.REMOVED, "learner.old_bound", 0.0)
    preflight.require_same(saved, cfg, place)
    saved["learner"]["old_bound"] = 2.0
    changed = configuration.override(cfg, {"learner.dual_clip": "3.0"})
    with pytest.raises(ValueError, match=r"learner.old_bound: 2.0 -> '<absent>'; learner.dual_clip: 0.0 -> 3.0\)"):
        preflight.require_same(saved, changed, place)


@pytest.mark.parametrize("section", ["retrieval", "judge"])
def test_a_server_may_move_and_be_waited_for_otherwise(section):
    recipe = configs.load("ssp_qwen7b")
    judge = ["judge.model=x", "judge.url=http://a/v1"]
    engine = ["retrieval.engine=http", "retrieval.url=http://a/retrieve"]
    cfg, place = configuration.parse(recipe, [*judge, *engine]), Path("DIR/checkpoints")
    words = [f"{section}.{word}" for word in ("url=http://b/retrieve", "timeout=5", "tries=2")]
    preflight.require_same(configuration.to_json(cfg), configuration.parse(cfg, words), place)


def test_a_judge_is_no_other_model():
    cfg = configuration.parse(configs.load("ssp_qwen7b"), ["judge.model=x", "judge.url=http://a/v1"])
    for word in ("judge.model=y", "judge.url="):
        with pytest.raises(ValueError, match=rf"\({word.partition('=')[0]}: "):
            preflight.require_same(
                configuration.to_json(cfg), configuration.parse(cfg, [word]), Path("DIR/checkpoints")
            )


def test_prompts_may_be_padded_to_other_lengths_up_to_the_same_longest():
    cfg, place = configs.load("ssp_qwen0p5b"), Path("DIR/checkpoints")
    saved = configuration.to_json(cfg)
    *_, longest = cfg.buckets.prompt
    preflight.require_same(saved, configuration.parse(cfg, [f"buckets.prompt=64,{longest}"]), place)
    with pytest.raises(ValueError, match=rf"\(buckets.prompt: .*{longest}.* -> .*{longest + 1}"):
        preflight.require_same(saved, configuration.parse(cfg, [f"buckets.prompt=64,{longest + 1}"]), place)


def test_a_game_names_the_fields_that_it_has_no_more():
    cfg, place = configs.load("ssp_nano"), Path("DIR/checkpoints")
    saved = configuration.to_json(cfg)
    saved["ssp"] |= {"noise_unit": "passage", "bounded_left": 0.0}
    preflight.require_same(saved, cfg, place)
    saved["ssp"]["noise_unit"] = "row"
    with pytest.raises(ValueError, match=r"\(ssp.noise_unit: 'row' -> '<absent>'\)"):
        preflight.require_same(saved, cfg, place)


_OWN = """
def same(text, task):
    return text.lower() == task.answer
def breaks(text, task):
    return text.index("s") > 0
def word(text, task):
    return "yes"
"""


@pytest.mark.parametrize(
    ("config", "name", "message"),
    [
        ("rlvr_smollm2", "same", "several.jsonl: 2 of 10 right answers would .* the first 'Oslo'"),
        ("rlvr_smollm2", "breaks", "breaks, asked about the right answer 'bako': ValueError: substring not found"),
        ("spice_smollm2", "breaks", "breaks, asked about the right answer '4': ValueError: substring not found"),
        ("spice_smollm2", "word", "it returned 'yes'; return True or False"),
        ("spice_nano", "no", "rules.py has no no"),
    ],
)
def test_a_verifier_of_the_users_own_is_tried_on_right_answers(tmp_path, config, name, message):
    (tmp_path / "rules.py").write_text(_OWN)
    several = _questions(tmp_path / "several.jsonl", *["bako"] * 8, "Oslo", "Oslo")
    source = several if config == "rlvr_smollm2" else "facts"
    words = ["eval.tasks=none", f"corpus.source={source}", f"verifier={tmp_path}/rules.py:{name}", "verifier_workers=1"]
    with pytest.raises(ValueError, match=message) as error:
        preflight.require(configuration.parse(configs.load(config), words), tmp_path / "run", planned=True, first=False)
    assert "\n" not in str(error.value)
