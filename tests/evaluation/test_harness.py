"""lm-evaluation-harness on our models: beside its own Hugging Face model, and a task's score beside ours."""

import json

import jsonl
import pytest

from spicejax import commands, configs
from spicejax import config as configuration
from spicejax.run import respond
from spicejax.run.resolve import resolve

pytest.importorskip("lm_eval")

TASK = r"""
task: local
dataset_path: json
dataset_kwargs: {data_files: {test: FILE}, cache_dir: CACHE}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\n"], max_gen_toks: 14}
filter_list:
  - name: boxed
    filter: [{function: regex, regex_pattern: 'boxed\{([^}]*)\}'}, {function: take_first}]
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true, ignore_case: true, ignore_punctuation: true}
"""


@pytest.fixture(scope="module")
def nano(cache):
    cfg = configuration.override(configs.load("rlvr_nano"), {"nano.cache": str(cache)})
    return resolve(cfg, make_world=True).cfg


@pytest.fixture(scope="module")
def model(nano):
    from spicejax.evaluation import harness

    loaded = respond.load(nano.model.path)
    return harness.Model(loaded.player, loaded.chat_format.tokenizer, rows=3)


def requests(kind, *asked):
    from lm_eval.api.instance import Instance

    return [Instance(kind, {}, args, k) for k, args in enumerate(asked)]


def test_it_says_what_the_harness_says_of_the_same_model_in_torch(nano, model):
    """Likelihoods, what is greedy, windows of long texts, what is written up to a stop."""
    from lm_eval.models.huggingface import HFLM

    theirs = HFLM(nano.model.path, device="cpu", dtype="float32", batch_size=1, max_length=model.max_length)
    lines = nano.eval.tasks and [json.loads(line) for line in open(nano.eval.tasks)][:7]
    questions = [line["question"] for line in lines]
    pairs = [(q, f" {line['answer']}") for q, line in zip(questions, lines, strict=True)]
    pairs += [("", questions[0]), (questions[1] + "  ", "and more"), (questions[2] * 3, questions[3])]
    ours, expected = (
        model.loglikelihood(requests("loglikelihood", *pairs)),
        theirs.loglikelihood(requests("loglikelihood", *pairs)),
    )
    assert [greedy for _, greedy in ours] == [greedy for _, greedy in expected]
    assert [logprob for logprob, _ in ours] == pytest.approx([logprob for logprob, _ in expected], abs=2e-3)
    texts = [(" ".join(questions) * 4,), (questions[0],)]
    rolling = requests("loglikelihood_rolling", *texts)
    assert model.loglikelihood_rolling(rolling) == pytest.approx(theirs.loglikelihood_rolling(rolling), rel=1e-4)
    asked = [(q, {"until": ["\n"], "max_gen_toks": 14}) for q in questions]
    asked += [(questions[0], {"until": "\\boxed", "max_gen_toks": 14}), (questions[0], {"max_gen_toks": 3})]
    assert model.generate_until(requests("generate_until", *asked)) == theirs.generate_until(
        requests("generate_until", *asked)
    )


def test_a_chat_is_rendered_by_our_template_alone(model):
    history = [{"role": "user", "content": "<|im_start|> what is 2+3?"}]
    asked = model.apply_chat_template(history)
    assert model.tok_encode(asked) == model.player.render(history)
    assert model.tok_encode(asked + " 5") == model.player.render(history) + model.text.encode(" 5")
    begun = model.apply_chat_template([*history, {"role": "assistant", "content": "It is"}], False)
    assert model.tok_encode(begun) == model.player.render(history) + model.text.encode("It is")


def test_a_task_of_ones_own_scores_what_we_score(nano, tmp_path, capsys):
    lines = [json.loads(line) for line in open(nano.eval.tasks)][:40]
    jsonl.write(tmp_path / "q.jsonl", ({"question": x["question"], "answer": x["answer"]} for x in lines))
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    text = TASK.replace("FILE", str(tmp_path / "q.jsonl")).replace("CACHE", str(tmp_path / "cache"))
    (tasks / "local.yaml").write_text(text)
    ours = [f"--model={nano.model.path}", f"--questions={tmp_path}/q.jsonl", "--config=rlvr_nano", "--json"]
    assert commands.run("evaluate", ours) == 0
    expected = json.loads(capsys.readouterr().out)["scores"]["exact"]["mean"]
    assert 0.2 < expected < 0.9, "or nothing is compared"
    out = tmp_path / "out"
    words = [f"--model={nano.model.path}", "--harness=local", f"--tasks={tasks}", "--chat", f"--out={out}", "--json"]
    assert commands.run("evaluate", words) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["local"]
    assert found["exact_match,boxed"] == pytest.approx(expected)
    assert len((out / "samples_local.jsonl").read_text().splitlines()) == 40
    assert json.loads((out / "results.json").read_text())["results"]["local"] == found


def test_a_setting_that_the_sampler_does_not_know_is_refused(model):
    with pytest.raises(ValueError, match="generation_kwargs: num_beams is not supported; a task may set do_sample, "):
        model.generate_until(requests("generate_until", ("2+2=", {"num_beams": 4})))


@pytest.mark.parametrize(("words", "said"), [
    (["--harness=no_such"], "--harness=no_such: lm-eval has no such task, and --tasks=FOLDER"),
    (["--harness=gsm8k", "--tasks=nowhere"], "--tasks=nowhere: there is no such folder"),
    (["--harness=gsm8k", "--judge=self"], "takes no --judge"), (["--harness=gsm8k", "seed=1"], "takes no seed=1"),
    (["--harness=gsm8k", "--most=-1"], "--most=-1: give 1 or more"),
    (["--questions=q.jsonl", "--chat"], "--chat belongs to --harness=TASK"),
])  # fmt: skip
def test_what_cannot_be_asked_is_said_first(words, said, capsys):
    assert commands.run("evaluate", ["--model=nowhere", *words]) == 2
    assert said in capsys.readouterr().err
