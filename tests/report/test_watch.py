"""The page while a run goes on: it is served to this machine, changes with the run, and refuses other names."""

import contextlib
import http.client
import socket
import threading
import time

import jsonl
import pytest

from spicejax import commands
from spicejax.report import watch


@contextlib.contextmanager
def serving(folders, host="127.0.0.1"):
    """A server of the page of these folders; yields its port."""
    with watch.server(folders, host=host, port=0, every=1) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def get(port, path, host="localhost:PORT", at="127.0.0.1"):
    """(status, text) of a request to the address `at` that names `host`."""
    connection = http.client.HTTPConnection(at, port, timeout=60)
    connection.request("GET", path, headers={"Host": host.replace("PORT", str(port))})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


@pytest.fixture
def served(tmp_path):
    """The port of the page of a run of one iteration."""
    jsonl.write(tmp_path / "metrics.jsonl", [{"iteration": 0, "reasoner/pass_rate": 0.5}])
    with serving([tmp_path]) as port:
        yield port


def test_the_page_follows_the_run(served, tmp_path):
    status, page = get(served, "/")
    assert status == 200 and "<dd>1</dd>" in page and 'name="live"' in page
    _, before = get(served, "/version")
    assert get(served, "/version") == (200, before)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 1, "reasoner/pass_rate": 0.5}\n{"iteration": 2, "rea')
    assert get(served, "/version")[1] != before
    assert "<dd>2</dd>" in get(served, "/")[1]


def test_other_paths_and_other_names_are_refused(served):
    assert get(served, "/tasks.jsonl")[0] == get(served, "/../etc/passwd")[0] == 404
    assert get(served, "/", host="evil.example:PORT")[0] == 403


def test_a_page_that_cannot_be_made_is_answered_and_said(served, monkeypatch, caplog):
    def fails(*_, **__):
        raise ValueError("no such <glyph>")

    monkeypatch.setattr(watch, "render", fails)
    status, text = get(served, "/")
    assert status == 500 and "no such &lt;glyph&gt;" in text
    assert "the page cannot be made (ValueError: no such <glyph>)" in caplog.text


def test_who_says_nothing_or_takes_nothing_is_left(served, monkeypatch):
    """Connections that are open, that drip, and that are too many end; the page is served as before."""
    monkeypatch.setattr(watch, "PATIENCE", 0.5)

    def connect(said=b""):
        connection = socket.create_connection(("127.0.0.1", served), timeout=60)
        connection.sendall(said)
        return connection

    silent, dripping = connect(), connect(b"GET / HTTP/1.1\r\n")
    with silent, dripping:
        with contextlib.suppress(OSError):  # until it is closed
            while True:
                dripping.sendall(b"X: a\r\n")
                time.sleep(0.05)
        assert silent.recv(1) == b""
    monkeypatch.setattr(watch, "PATIENCE", 600.0)
    many = [connect() for _ in range(watch.MOST)]
    with connect(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n") as late, contextlib.suppress(ConnectionError):
        assert late.recv(1) == b""
    for connection in many:
        connection.close()
    while True:  # until the threads have seen it
        with contextlib.suppress(OSError, http.client.HTTPException):
            assert get(served, "/version")[0] == 200
            break


@pytest.mark.parametrize("host", ["::1", "::", "localhost"])
def test_addresses_of_both_kinds(host):
    at = "127.0.0.1" if host == "localhost" else "::1"
    try:
        socket.create_server((at, 0), family=socket.AF_INET6 if ":" in at else socket.AF_INET).close()
    except OSError:
        pytest.skip(f"this machine has no {at}")
    with serving([], host) as port:
        assert get(port, "/version", "[::1]:PORT", at)[0] == get(port, "/version", "localhost", at)[0] == 200
        assert get(port, "/version", "evil.example:PORT", at)[0] == (200 if host == "::" else 403)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--host=nobody.invalid"], "cannot listen on nobody.invalid"),
        (["--host="], "give an address"),
        (["--port=99999"], "99999"),
        (["--port=TAKEN"], "cannot listen on 127.0.0.1:TAKEN: Address already in use"),
        (["/nowhere"], "/nowhere is no folder"),
    ],
)
def test_what_cannot_be_watched_is_said_in_one_line(words, why, tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert commands.run("watch", [str(tmp_path), *(word.replace("TAKEN", port) for word in words)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and why.replace("TAKEN", port) in said
