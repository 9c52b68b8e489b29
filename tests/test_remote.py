"""Servers that stall, drip, break off, lie, point elsewhere or never end: one error for all, and no endless wait."""

import asyncio
import contextlib
import json
import logging
import re
import socket
import threading
import time

import pytest

from spicejax import interrupt
from spicejax.generate.endpoint import EndpointConfig, chat
from spicejax.interrupt import Interrupt, Stopped
from spicejax.remote import Server, ServerError, ask
from spicejax.retrieval import remote

GOOD = b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{"choices": [{"message": {"content": "yes"}}], "result": [[]]}'
DRIP = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"


@contextlib.contextmanager
def talking(*acts):
    """Serve: read a request, then act: bytes, or a call, each once, the last often. Yields the URL and the requests."""
    left, heard = list(acts), []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        def answer(connection):
            act = left.pop(0) if len(left) > 1 else left[0]
            with connection, contextlib.suppress(OSError):
                asked = connection.makefile("rb")
                head = b"".join(iter(asked.readline, b"\r\n")).decode()
                heard.append(head + asked.read(int(re.search(r"content-length: (\d+)", head, re.I)[1])).decode())
                connection.sendall(act) if isinstance(act, bytes) else act(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", heard


def stalling(head):
    def act(connection):
        connection.sendall(head)
        while connection.recv(1 << 16):  # until the other end leaves
            pass

    return act


def dripping(head, drop):
    def act(connection):
        connection.sendall(head)
        while True:  # until the other end leaves
            connection.sendall(drop)
            time.sleep(0.02)

    return act


def endless(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b" " * (1 << 20))


def reset(connection):
    connection.sendall(b"HTTP/1.1 500 Bad\r\nContent-Length: 90\r\n\r\n")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (reset, "Connection reset by peer"),
        (b"HTTP/1.1 500 Bad\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nno", "illegal chunk header"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{}", "peer closed connection"),
        (b"\x00\x01", "illegal"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000, "an answer that is none"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"9" * 10_000, "an answer that is none"),
        (b"HTTP/1.1 200 OK\r\n\r\n\xff", "an answer that is none"),
        (endless, "an answer of more than 1 MiB"),
    ],
)
def test_whatever_a_server_does_is_a_request_that_failed(monkeypatch, caplog, act, said):
    """It is tried again; all tries are a ServerError that says what happened."""
    monkeypatch.setattr("spicejax.remote.WAIT", 0.01)
    monkeypatch.setattr("spicejax.remote.LARGEST", 1 << 20)
    with talking(act, GOOD, act) as (url, heard), caplog.at_level(logging.WARNING, "spicejax"):
        server = Server("judge J", url, "judge", timeout=600.0, tries=2)
        assert ask(server, [{}], lambda body, answer: answer["result"]) == [[[]]]
        with pytest.raises(ServerError, match=f"judge J: .*{said}.*, 2 times in a row"):
            ask(server, [{}], lambda body, answer: answer["result"])
    assert len(heard) == 4 and "trying again in 0.01 s (2 of 2)" in caplog.text


@pytest.mark.parametrize(
    "act",
    [
        stalling(b""),
        stalling(b"HTTP/1.1 500 Bad\r\nContent-Length: 90\r\n\r\nsorry"),
        dripping(b"HTTP/1.1 200 OK\r\n", b"X: a\r\n"),
        dripping(DRIP, b" "),
    ],
)
def test_the_time_of_a_request_is_all_that_its_answer_has(act):
    with talking(act) as (url, _), pytest.raises(ServerError, match="no answer in time .judge.timeout."):
        ask(Server("judge J", url, "judge", timeout=0.5, tries=1), [{}], lambda body, answer: answer)


def test_an_address_that_is_none_is_said_as_the_system_says_it():
    asyncio.set_event_loop_policy(None)  # uvicorn below 0.36 leaves uvloop's, which takes any port
    with pytest.raises(ServerError, match="port must be"):
        ask(Server("S", "http://[::1]:99999/x", "s", timeout=600.0, tries=1), [{}], lambda body, answer: answer)


def test_a_proxy_that_cannot_be_used_is_named(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:1")
    with pytest.raises(ServerError, match="^judge: .*unset ALL_PROXY"):
        ask(Server("judge", "http://judge.invalid/", "judge", 5.0, 1), [{}], lambda body, said: said)


@pytest.mark.parametrize("status", [301, 308])
def test_no_key_and_no_question_goes_where_a_server_points(monkeypatch, status):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with talking(GOOD) as (elsewhere, strangers):
        head = f"HTTP/1.1 {status} Go\r\nLocation: {elsewhere}/chat\r\nContent-Length: 0\r\n\r\n".encode()
        with (
            talking(head) as (url, heard),
            pytest.raises(ServerError, match=f"status {status}: it names another address, {elsewhere}/chat") as error,
        ):
            chat(EndpointConfig(url, model="m"))
    assert "Bearer secret" in heard[0] and strangers == [] and "secret" not in str(error.value)


def test_a_key_that_no_request_can_carry_is_refused_and_not_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sec\nret")
    with talking(GOOD) as (url, _), pytest.raises(ValueError, match="OPENAI_API_KEY") as error:
        chat(EndpointConfig(url, model="m"))
    assert "sec" not in str(error.value)


def test_what_a_server_says_does_nothing_to_a_terminal(monkeypatch, caplog):
    monkeypatch.setattr("spicejax.remote.WAIT", 0.01)
    said = "HTTP/1.1 500 Bad\r\n\r\n\x1b]0;title\x07\x1b[2J\r\n\u202eno\x9b".encode()
    with talking(said) as (url, _), caplog.at_level(logging.WARNING, "spicejax"):
        with pytest.raises(ServerError, match="status 500") as error:
            ask(Server("S", url, "s", timeout=60.0, tries=2), [{}], lambda body, answer: answer)
    assert caplog.records and str(error.value).isprintable()
    assert all(record.getMessage().isprintable() for record in caplog.records)


def test_half_a_pair_of_surrogates_and_ids_of_nothing_are_read():
    rows = [[{"document": {"id": None, "contents": f"a \ud800 {n}"}} for n in range(2)]]
    answer = b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps({"result": rows}).encode()
    with talking(answer) as (url, _):
        (found,) = remote.search(f"{url}/retrieve", timeout=60, tries=1)(["\ud800"], 3)
    assert [p.text for p in found] == ["a ? 0", "a ? 1"] and found[0].id != found[1].id
    assert "None" not in {p.id for p in found}


def test_many_tries_wait_the_longest_wait(monkeypatch):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    async def gone(*_):
        raise ConnectionRefusedError("gone")

    monkeypatch.setattr("spicejax.remote.asyncio.sleep", sleep)
    monkeypatch.setattr("spicejax.remote._once", gone)
    with pytest.raises(ServerError, match="S: gone, 1100 times in a row"):
        ask(Server("S", "http://127.0.0.1/", "s", timeout=60.0, tries=1100), [{}], lambda body, answer: answer)
    assert waits[:7] == [1, 2, 4, 8, 16, 32, 60] and len(waits) == 1099 and set(waits[6:]) == {60}


@pytest.mark.parametrize("act", [b"HTTP/1.1 500 Bad\r\n\r\n", dripping(DRIP, b" ")])
def test_a_signal_ends_the_wait_for_a_server(act):
    """Between tries, and while an answer drips: an hour would pass else."""
    with talking(act) as (url, heard), Interrupt() as stop:
        server = Server("S", url, "s", timeout=3600.0, tries=12)
        timer = threading.Timer(1.0, setattr, (stop, "requested", True))
        timer.start()
        with pytest.raises(Stopped):
            ask(server, [{}] * 20, lambda body, answer: answer)
        timer.join()
    assert heard and not interrupt.requested()
