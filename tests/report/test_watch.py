"""The page while a run goes on: it is served to this machine, changes with the run, and refuses other names."""

import contextlib
import http.client
import json
import socket
import threading
import time

import pytest

from spicejax import commands
from spicejax.report import watch


@pytest.fixture
def served(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"iteration": 0, "reasoner/pass_rate": 0.5}) + "\n")
    with watch.server([tmp_path], host="127.0.0.1", port=0, every=1) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def get(path, host="localhost"):
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
            connection.request("GET", path, headers={"Host": f"{host}:{server.server_port}"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

        get.port = server.server_port
        yield get, tmp_path
        server.shutdown()


def test_the_page_follows_the_run(served):
    get, folder = served
    status, page = get("/")
    assert status == 200 and "<dd>1</dd>" in page and 'name="live"' in page
    _, before = get("/version")
    assert get("/version") == (200, before)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"iteration": 1, "reasoner/pass_rate": 0.5}) + "\n" + '{"iteration": 2, "rea')
    assert get("/version")[1] != before
    assert "<dd>2</dd>" in get("/")[1]


def test_other_paths_and_other_names_are_refused(served):
    get, _ = served
    assert get("/tasks.jsonl")[0] == get("/../etc/passwd")[0] == 404
    assert get("/", host="evil.example")[0] == 403


def test_who_says_nothing_or_takes_nothing_is_left(served, monkeypatch):
    """Connections that are open, that drip, and that are too many end; the page is served as before."""
    monkeypatch.setattr(watch, "PATIENCE", 0.5)
    get, _ = served

    def connect(said=b""):
        connection = socket.create_connection(("127.0.0.1", get.port), timeout=60)
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
            assert get("/version")[0] == 200
            break


def _serves(host, called, at):
    """Status of the page of an empty run, served at `host`, asked for at the address `at` as `called`."""
    with watch.server([], host=host, port=0, every=1) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connection = http.client.HTTPConnection(at, server.server_port, timeout=60)
        connection.request("GET", "/version", headers={"Host": called.replace("PORT", str(server.server_port))})
        status = connection.getresponse().status
        server.shutdown()
    return status


@pytest.mark.parametrize("host", ["::1", "::", "localhost"])
def test_addresses_of_both_kinds(host):
    at = "127.0.0.1" if host == "localhost" else "::1"
    try:
        socket.create_server((at, 0), family=socket.AF_INET6 if ":" in at else socket.AF_INET).close()
    except OSError:
        pytest.skip(f"this machine has no {at}")
    assert _serves(host, "[::1]:PORT", at) == _serves(host, "localhost", at) == 200
    assert _serves(host, "evil.example:PORT", at) == (200 if host == "::" else 403)


@pytest.mark.parametrize("words", [["--host=nobody.invalid"], ["--host="], ["--port=99999"]])
def test_where_it_cannot_listen_is_said_in_one_line(words, tmp_path, capsys):
    assert commands.run("watch", [str(tmp_path), *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and ("cannot listen on" in said or "give an address" in said)


def test_a_port_that_is_taken_is_named(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert commands.run("watch", [str(tmp_path), f"--port={port}"]) == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in capsys.readouterr().err


def test_what_is_no_folder_is_named(capsys):
    assert commands.run("watch", ["/nowhere"]) == 2
    assert "/nowhere is no folder" in capsys.readouterr().err
