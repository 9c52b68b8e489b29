"""A judge behind an OpenAI-compatible server: what is sent, what comes back, what it does when it cannot be asked."""

import json

import pytest
from processes import free_port
from serving import answering

from spicejax.generate.endpoint import EndpointConfig, chat
from spicejax.remote import ServerError


def talk(text):
    return [{"role": "user", "content": text}]


def test_replies_stand_in_the_order_of_the_questions(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    asked = []

    def model(body):
        asked.append(body)
        said = f"yes, {body['messages'][0]['content']}"
        return 200, json.dumps({"choices": [{"message": {"role": "assistant", "content": said}}]}).encode()

    with answering(model) as url:
        replies = chat(EndpointConfig(f"{url}/v1/", model="m", max_new=7))([talk(str(n)) for n in range(20)])
    assert replies == [f"yes, {n}" for n in range(20)]
    assert {(body["model"], body["temperature"], body["max_tokens"]) for body in asked} == {("m", 0, 7)}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _: (401, b"no key"), r"status 401 \(no key\)"),
        (lambda _: (200, b'{"choices": []}'), "an answer that is none"),
        (lambda _: (200, b'{"choices": [{"message": {"content": null}}]}'), "content is None, no text"),
    ],
)
def test_a_server_that_cannot_be_asked_is_named_before_anything_starts(answer, said):
    with (
        answering(answer) as url,
        pytest.raises(ServerError, match=f"judge {url}.*{said}.*start it, or correct judge.url"),
    ):
        chat(EndpointConfig(url, model="m"))


def test_a_server_that_is_gone_is_tried_again(monkeypatch):
    monkeypatch.setattr("spicejax.remote.WAIT", 0.01)
    good = lambda _: (200, b'{"choices": [{"message": {"content": "no"}}]}')  # noqa: E731
    with answering(good, lambda _: (503, b"later"), good, lambda _: (503, b"later")) as url:
        ask = chat(EndpointConfig(url, model="m", tries=2))
        assert ask([talk("a")]) == ["no"]
        with pytest.raises(ServerError, match=r"status 503 \(later\), 2 times in a row"):
            ask([talk("a")])


def test_bad_settings_are_named():
    for wrong, said in (
        ({"url": "localhost:1/v1", "model": "m"}, "judge.url=localhost:1/v1: give the whole address"),
        ({"url": f"http://localhost:{free_port()}/v1"}, "judge.model is empty"),
        ({"tries": 0}, "judge.tries=0"),
        ({"timeout": 0.0}, "judge.timeout=0.0"),
    ):
        with pytest.raises(ValueError, match=said):
            EndpointConfig(**wrong)
