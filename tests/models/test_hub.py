"""A model by its name: from a server on this machine that speaks as much of the Hub as its library asks for."""

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from processes import PATIENCE
from tiny_models import QWEN3, random_params

from spicejax.models import hf

ROOT = Path(__file__).parents[2]
COMMIT = "0" * 39 + "1"
ASK = "import sys; from spicejax.models import hf; print(hf.read_config(sys.argv[1]).d_model)"


@pytest.fixture
def hub(tmp_path):
    """(environment of a process that asks it, its folder ORG/NAME -> files, the paths asked for)."""
    models, asked = tmp_path / "models", []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            parts = self.path.partition("?")[0].strip("/").split("/")
            if parts[:2] == ["api", "models"]:
                folder = models / parts[2] / parts[3]
                files = sorted(p for p in folder.rglob("*") if p.is_file())
                names = [p.relative_to(folder).as_posix() for p in files]
                about = {"id": "/".join(parts[2:4]), "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
                tree = [{"type": "file", "path": name, "size": 1, "oid": COMMIT} for name in names]
                body = json.dumps(tree if "tree" in parts else about).encode()
                found = bool(files)
            else:  # ORG/NAME/resolve/REVISION/FILE
                file = models / parts[0] / parts[1] / "/".join(parts[4:])
                found = len(parts) > 4 and file.is_file()
                body = file.read_bytes() if found else b""
            self.send_response(200 if found else 404)
            if found:
                self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
                self.send_header("X-Repo-Commit", COMMIT)
            else:
                self.send_header("X-Error-Code", "EntryNotFound" if len(parts) > 4 else "RepoNotFound")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, format, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": str(tmp_path / "home")}
        yield os.environ | here | {"HF_HUB_OFFLINE": "0"}, models, asked
        server.shutdown()


def ask(name, environment):
    words = [sys.executable, "-c", ASK, name]
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, env=environment, cwd=ROOT)


def test_a_model_is_fetched_once_and_then_found_without_internet(hub):
    environment, models, asked = hub
    hf.save(models / "org" / "model", QWEN3, random_params(QWEN3))
    (models / "org" / "model" / "README.md").write_text("---\nlicense: mit\n---\n")
    (models / "org" / "model" / "original").mkdir()
    (models / "org" / "model" / "original" / "weights.safetensors").write_bytes(b"a second copy")
    done = ask("org/model", environment)
    assert done.returncode == 0 and done.stdout.strip() == str(QWEN3.d_model), done.stderr
    for name in ("/model.safetensors", "/README.md"):  # the card of what is trained names the license
        assert any(path.endswith(name) for path in asked), name
    assert not any("original" in path for path in asked)
    again = ask("org/model", environment | {"HF_ENDPOINT": "http://127.0.0.1:9"})
    assert again.returncode == 0 and again.stdout.strip() == str(QWEN3.d_model), again.stderr


def test_another_family_is_refused_before_its_weights_are_fetched(hub):
    environment, models, asked = hub
    hf.save(models / "org" / "model", QWEN3, random_params(QWEN3))
    config = models / "org" / "model" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"model_type": "mamba"}))
    done = ask("org/model", environment)
    assert "org/model is of the family 'mamba', which is not known here; known are qwen3" in done.stderr
    assert not any(path.endswith(".safetensors") for path in asked)


def test_without_internet_the_way_on_is_said(hub):
    environment, _, _ = hub
    done = ask("org/model", environment | {"HF_ENDPOINT": "http://127.0.0.1:9"})
    assert "org/model: no such folder, and it could not be downloaded" in done.stderr
    assert "hf download org/model --local-dir FOLDER" in done.stderr
