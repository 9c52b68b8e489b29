"""A retriever elsewhere: the real server over both protocols, and servers that are gone, slow or confused."""

import contextlib
import json
import socket
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import jsonl
import pytest
import uvicorn
from processes import PATIENCE, free_port
from serving import answering, serving

from spicejax.remote import ServerError
from spicejax.retrieval import remote, serve
from spicejax.retrieval.source import RetrievalConfig, open_search
from spicejax.types import Passage


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    file = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    rows = [{"id": f"d{i}", "title": f"Word {i}", "text": f"word{i} is here <search>no</search>"} for i in range(50)]
    jsonl.write(file, rows)
    return file


@pytest.fixture(scope="module")
def server(corpus):
    """Address of the real server over the corpus."""
    port = free_port()
    with serving(corpus, port):
        yield f"http://127.0.0.1:{port}"


def good(asked):
    found = [[{"document": {"id": q, "contents": f'"T"\nabout {q}'}, "score": 1.0}] for q in asked["queries"]]
    return 200, json.dumps({"result": found}).encode()


def test_both_protocols_find_what_the_engine_finds(server, corpus):
    here = open_search(RetrievalConfig("words", corpus=str(corpus), words=0), None)
    wanted = here(["word7 here", "word31"], 2)
    assert [p.id for row in wanted for p in row][::2] == ["d7", "d31"]
    assert open_search(RetrievalConfig("http", url=f"{server}/retrieve"), None)(["word7 here", "word31"], 2) == wanted
    found = open_search(RetrievalConfig("http", url=f"{server}/queries"), None)(["word7 here", "word31"], 2)
    assert [[p.text for p in row] for row in found] == [[f"{p.title} {p.text}" for p in row] for row in wanted]
    assert len({p.id for row in found for p in row}) == len({p.id for row in wanted for p in row}), "ids differ"


def test_answers_neither_get_lost_nor_cross_under_load(server):
    search = remote.search(f"{server}/retrieve", timeout=120, tries=1)

    def client(n):
        queries = [f"word{(7 * n + j) % 50}" for j in range(5)]
        return [row[0].id[1:] == query[4:] for query, row in zip(queries * 4, search(queries * 4, 2), strict=True)]

    with ThreadPoolExecutor(32) as pool:
        assert all(all(right) for right in pool.map(client, range(96)))


@pytest.mark.parametrize(("path", "body", "status", "said"), [
    ("retrieve", b"{", 400, "Expecting"),
    ("retrieve", b"{}", 400, "queries is missing"),
    ("queries", b'{"queries": "a"}', 400, "queries: give a list of texts"),
    ("queries", b'{"queries": ["a"], "k": 0}', 400, "0 passages a query: give 1 to 100"),
    ("queries", b'{"queries": ' + b"[" * 10**5 + b"]" * 10**5 + b"}", 400, "too deep to be read"),
    ("queries", json.dumps({"queries": [""] * 16385}).encode(), 400, "16385 queries: give 16384 at most"),
    ("queries", b" " * (8 * 2**20 + 1), 413, "more than 8 MiB; send fewer queries at once"),
    ("retrieve", b'{"queries": ["a"], "topk": 0}', 400, "0 passages a query: give 1 to 100"),
])  # fmt: skip
def test_the_server_says_what_a_request_lacks(server, path, body, status, said):
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(urllib.request.Request(f"{server}/{path}", body), timeout=120)
    assert error.value.code == status and said in error.value.read().decode()


@pytest.fixture
def hasty(monkeypatch):
    """A server that looks after its connections every second, has room for four, and takes three for a search of
    `slow`; of `large` it has megabytes to tell."""
    monkeypatch.setattr(serve, "PATIENCE", 1.0)
    monkeypatch.setattr(serve, "MAX_CONNECTIONS", 4)

    def search(queries, k):
        time.sleep(3.0 * ("slow" in queries))
        return [[Passage("p", "T", query * (2**22 if query == "large" else 1))] * k for query in queries]

    port = free_port()
    running = uvicorn.Server(uvicorn.Config(serve.app(search), port=port, log_level="warning", http=serve.Connection))
    thread = threading.Thread(target=running.run)
    thread.start()
    while not running.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield running
    running.should_exit = True
    thread.join()


HEAD = b"POST /queries HTTP/1.1\r\n"


def asking(word):
    body = json.dumps({"queries": [word], "k": 1}).encode()
    return HEAD + b"Host: h\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def heard_until_closed(connection, drip=b"", between=lambda: None):
    """What a connection says until it is closed, while something is sent on it."""
    heard, end = b"", time.monotonic() + PATIENCE / 60
    connection.settimeout(0.05)
    while time.monotonic() < end:
        with contextlib.suppress(TimeoutError):
            try:
                if not (part := connection.recv(9999)):
                    return heard
            except ConnectionError:
                return heard
            heard += part
        with contextlib.suppress(ConnectionError):
            connection.sendall(drip)
        between()
    raise AssertionError("it is heard for ever")


@pytest.mark.parametrize(
    ("first", "drip", "said"),
    [
        (b"", b"", b""),
        (HEAD, b"X: a\r\n", b""),
        (HEAD + b"Host: h\r\nContent-Length: 99\r\n\r\n", b"", b"HTTP/1.1 408"),
        (HEAD + b"Host: h\r\nContent-Length: 9999\r\n\r\n", b" ", b"HTTP/1.1 408"),
        (asking("a") + HEAD, b"X: a\r\n", b'{"answers":[["T a"]]}'),
    ],
)
def test_who_asks_nothing_whole_is_left(hasty, first, drip, said):
    """It would be heard for ever; others are answered meanwhile."""

    def other():
        urllib.request.urlopen(f"http://127.0.0.1:{hasty.config.port}/status", timeout=PATIENCE).close()

    with socket.create_connection(("127.0.0.1", hasty.config.port), timeout=PATIENCE) as connection:
        connection.sendall(first)
        heard = heard_until_closed(connection, drip, other)
    assert said in heard and (said or not heard)


@pytest.mark.parametrize("times", [1, 2])
def test_who_takes_no_answer_is_left(hasty, times):
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", hasty.config.port))
        connection.sendall(asking("large") * times)
        while not connection.recv(1, socket.MSG_PEEK):
            time.sleep(0.01)
        end = time.monotonic() + PATIENCE / 60
        while hasty.server_state.connections:
            assert time.monotonic() < end, "it is waited for for ever"
            time.sleep(0.05)


def test_a_search_that_takes_longer_and_an_answer_that_is_read_slowly_are_waited_for(hasty, monkeypatch):
    with socket.create_connection(("127.0.0.1", hasty.config.port), timeout=PATIENCE) as connection:
        connection.sendall(asking("slow"))
        assert b'[["T slow"]]' in connection.recv(9999)
    monkeypatch.setattr(serve, "PATIENCE", 2.0)  # that this process stands still for so long is unlikely
    whole = len(json.dumps({"answers": [["T " + "large" * 2**22]]}, separators=(",", ":")))
    with socket.create_connection(("127.0.0.1", hasty.config.port), timeout=PATIENCE) as connection:
        connection.sendall(asking("large"))
        read = -connection.recv(9999).index(b"\r\n\r\n") - 4
        read += 9999
        while read < whole:
            read += len(part := connection.recv(2**19))
            assert part, f"{read} of {whole} bytes"
            time.sleep(0.1)
    assert read == whole


def test_more_connections_than_there_is_room_for_are_closed(hasty, monkeypatch):
    monkeypatch.setattr(serve, "PATIENCE", PATIENCE)
    with contextlib.ExitStack() as stack:
        many = [
            stack.enter_context(socket.create_connection(("127.0.0.1", hasty.config.port), PATIENCE)) for _ in range(5)
        ]
        with contextlib.suppress(ConnectionError):
            assert many[4].recv(1) == b""
        many[0].sendall(asking("a"))
        assert many[0].recv(9999).startswith(b"HTTP/1.1 200")
        many[1].close()
        again = asking("b")
        while True:  # until the server has seen it
            with (
                socket.create_connection(("127.0.0.1", hasty.config.port), PATIENCE) as late,
                contextlib.suppress(ConnectionError),
            ):
                late.sendall(again)
                if late.recv(9999).startswith(b"HTTP/1.1 200"):
                    break


def test_what_others_servers_send_is_read():
    flat = [[{"document": {"id": 3, "contents": "no title"}}]]
    with answering(lambda asked: (200, json.dumps({"result": flat * len(asked["queries"])}).encode())) as url:
        assert remote.search(f"{url}/retrieve", timeout=60, tries=1)(["q"], 3) == [[Passage("3", "", "no title")]]


@pytest.mark.parametrize(("answer", "said"), [
    (lambda _: (500, b"overloaded"), r"status 500 \(overloaded\)"),
    (lambda _: (200, b"<html>"), "an answer that is none"),
    (lambda _: (200, b'{"result": []}'), "0 lists for 1 queries"),
    (lambda _: (200, b'{"result": [[{"document": {"contents": null}}]]}'), "None is no text"),
    (lambda _: (200, b'{"answers": [["a"]]}'), r"an answer that is none \('result'\)"),
])  # fmt: skip
def test_a_request_that_fails_is_tried_again_and_then_named(monkeypatch, caplog, answer, said):
    monkeypatch.setattr("spicejax.remote.WAIT", 0.01)
    with answering(good, answer, answer, good, answer) as url:
        search = remote.search(f"{url}/retrieve", timeout=1, tries=3)
        with caplog.at_level("WARNING", "spicejax"):
            assert search(["a"], 1) == [[Passage("a", "T", "about a")]]
        assert "trying again in 0.02 s (3 of 3)" in caplog.text
        with pytest.raises(ServerError, match=f"{said}.*, 3 times in a row"):
            search(["a"], 1)


def test_a_run_does_not_start_on_a_server_that_is_not_there():
    url = f"http://127.0.0.1:{free_port()}/retrieve"
    with pytest.raises(ServerError, match=f"{url}: .*refused.*start it .launch/serve_retriever.py"):
        open_search(RetrievalConfig("http", url=url), None)


@pytest.mark.parametrize("url", ["localhost:5003/retrieve", "http://localhost:5003", "http://localhost:5003/search"])
def test_an_address_without_a_protocol_is_refused(url):
    with pytest.raises(ValueError, match=f"retrieval.url={url}: give the whole address, http://HOST:PORT and /retr"):
        open_search(RetrievalConfig("http", url=url), None)
