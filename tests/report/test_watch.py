"""The page while a run goes on: it is served to this machine, changes with the run, and refuses other names."""

import http.client
import json
import threading

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


def test_what_is_no_folder_is_named(capsys):
    assert commands.run("watch", ["/nowhere"]) == 2
    assert "/nowhere is no folder" in capsys.readouterr().err
