"""A model by its name: from a server on this machine that speaks as much of the Hub as its library asks for."""

import dataclasses
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import pytest
from processes import PATIENCE
from tiny_models import QWEN3, random_params, write_encoder, write_tokenizer

from spicejax.models import hf

ROOT = Path(__file__).parents[2]
MODEL = dataclasses.replace(QWEN3, vocab_size=260)
COMMIT, LATER = "0" * 39 + "1", "0" * 39 + "2"
ABOUT = "import sys; from spicejax.models import hf; print(hf.read_config(sys.argv[1]).d_model)"
ALL = "import sys; from spicejax.models import hf; print(hf.load(sys.argv[1])[0].d_model)"


class Refusal(NamedTuple):
    """How the Hub says no: these three go with a 401 or a 403."""

    status: int
    code: str  # X-Error-Code
    message: str


class Hub(NamedTuple):
    """`models` holds the files as models/COMMIT/ORG/NAME."""

    environment: dict[str, str]  # of a process that asks it
    models: Path
    asked: list[str]  # the paths asked for
    refusals: dict[str, Refusal]  # by ORG/NAME
    newest: list[str]  # its last is the commit that `main` is

    def weights_asked(self) -> list[str]:
        return [path for path in self.asked if path.partition("?")[0].endswith(".safetensors")]


@pytest.fixture
def hub(tmp_path):
    found = Hub({}, tmp_path / "models", [], {}, [COMMIT])

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            found.asked.append(self.path)
            if self.path == "/move":  # another version appears
                found.newest.append(LATER)
                return self.answer(True, LATER, b"")
            parts = self.path.partition("?")[0].strip("/").split("/")
            api = parts[:2] == ["api", "models"]
            name = "/".join(parts[2:4] if api else parts[:2])
            if name in found.refusals:
                return self.refuse(found.refusals[name])
            if api:  # api/models/ORG/NAME[/revision/REVISION], api/models/ORG/NAME/tree/REVISION
                commit = self.commit(parts[5] if len(parts) > 5 else "main")
                folder = found.models / commit / name
                files = sorted(p for p in folder.rglob("*") if p.is_file())
                names = [p.relative_to(folder).as_posix() for p in files]
                about = {"id": name, "sha": commit, "siblings": [{"rfilename": name} for name in names]}
                tree = [{"type": "file", "path": name, "size": 1, "oid": commit} for name in names]
                self.answer(bool(files), commit, json.dumps(tree if "tree" in parts else about).encode())
            else:  # ORG/NAME/resolve/REVISION/FILE
                commit = self.commit(parts[3])
                file = found.models / commit / name / "/".join(parts[4:])
                self.answer(file.is_file(), commit, file.read_bytes() if file.is_file() else b"", file=True)

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))  # to make a repository
            self.refuse(found.refusals[f"{asked['organization']}/{asked['name']}"])

        def commit(self, revision):
            return found.newest[-1] if revision == "main" else revision

        def answer(self, there, commit, body, file=False):
            self.send_response(200 if there else 404)
            if there:
                self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
            else:
                self.send_header("X-Error-Code", "EntryNotFound" if file else "RepoNotFound")
            self.send_header("X-Repo-Commit", commit)
            self.finish_with(body)

        def refuse(self, refusal):
            self.send_response(refusal.status)
            self.send_header("X-Error-Code", refusal.code)
            self.send_header("X-Error-Message", refusal.message)
            self.send_header("X-Request-Id", "Root=1-abc")
            self.finish_with(json.dumps({"error": refusal.message}).encode())

        def finish_with(self, body):
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, format, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": str(tmp_path / "home")}
        found.environment.update({**os.environ, **here, "HF_HUB_OFFLINE": "0"})
        yield found
        server.shutdown()


def model(hub, commit=COMMIT, seed=0, name="model", **attributes):
    """Put a model on the Hub; its folder there."""
    folder = hub.models / commit / "org" / name
    hf.save(folder, MODEL, random_params(MODEL, seed))
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | attributes))
    write_tokenizer(folder)
    return folder


def python(code, environment, *words):
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment, cwd=ROOT)


def test_a_model_is_fetched_once_and_then_found_without_internet(hub):
    folder = model(hub)
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    (folder / "original").mkdir()
    (folder / "original" / "weights.safetensors").write_bytes(b"a second copy")
    done = python(ALL, hub.environment, "org/model")
    assert done.returncode == 0 and done.stdout.strip() == str(MODEL.d_model), done.stderr
    assert any(path.endswith("/README.md") for path in hub.asked), "the card of what is trained names the license"
    assert hub.weights_asked() and not any("original" in path for path in hub.asked)
    again = python(ALL, hub.environment | {"HF_ENDPOINT": "http://127.0.0.1:9"}, "org/model")
    assert again.returncode == 0 and again.stdout.strip() == str(MODEL.d_model), again.stderr


def test_what_a_model_is_takes_no_weights(hub):
    model(hub)
    code = f"{ABOUT}; from spicejax.text import tokens; print(len(tokens.load(sys.argv[1]).token_bytes()))"
    assert python(code, hub.environment, "org/model").stdout.split() == [str(MODEL.d_model), "260"]
    assert not hub.weights_asked()
    offline = python(f"{ABOUT}; {ALL}", hub.environment | {"HF_HUB_OFFLINE": "1"}, "org/model")
    assert offline.stdout.strip() == str(MODEL.d_model), "what it is was kept"
    assert "org/model: no such folder, and it could not be downloaded" in offline.stderr
    assert "hf download org/model --local-dir FOLDER" in offline.stderr


def test_a_dry_run_takes_no_weights(hub, tmp_path):
    folder = model(hub)
    (tmp_path / "documents.jsonl").write_text(json.dumps({"text": "word " * 100}) + "\n")
    words = ["train", "--config=spice_qwen0p6b_colab", "--dry_run", "model.path=org/model"]
    words += ["seats.challenger=org/model", f"--corpus={tmp_path}/documents.jsonl", f"--workdir={tmp_path}/run"]
    command = [sys.executable, "-m", "spicejax", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=hub.environment, cwd=ROOT)
    assert done.returncode == 0 and "from org/model" in done.stdout, done.stderr
    assert not hub.weights_asked() and (folder / "model.safetensors").is_file()


def test_what_is_not_known_is_refused_before_its_weights_are_fetched(hub):
    wrong = {
        "family": ({"model_type": "mamba"}, "config.json: model_type 'mamba' is not supported; the decoder knows"),
        "attribute": ({"attn_temperature": 0.5}, "config.json: unknown attribute attn_temperature=0.5"),
        "maths": ({"hidden_act": "relu"}, "config.json: hidden_act='relu' changes the maths"),
    }
    for name, (attributes, _) in wrong.items():
        model(hub, name=name, **attributes)
    code = """if True:
        import sys
        from spicejax.models import hf
        for name in sys.argv[1:]:
            try:
                hf.load(f"org/{name}")
            except ValueError as error:
                print(error)
    """
    done = python(code, hub.environment, *wrong)
    for (_, message), line in zip(wrong.values(), done.stdout.splitlines(), strict=True):
        assert message in line
    assert not hub.weights_asked()


def test_an_encoder_is_refused_before_its_weights_are_fetched(hub):
    folder = hub.models / COMMIT / "org" / "encoder"
    write_encoder(folder)
    code = "import sys; from spicejax.models import encoder; print(encoder.load(sys.argv[1])[0].d_model)"
    whole = python(code, hub.environment, "org/encoder")
    assert whole.stdout.strip() == "24", whole.stderr
    hub.asked.clear()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"position_embedding_type": "relative_key"}))
    shutil.rmtree(hub.environment["HF_HOME"])
    assert "position_embedding_type='relative_key'" in python(code, hub.environment, "org/encoder").stderr
    assert not hub.weights_asked()


def test_weights_are_of_the_commit_whose_config_was_read(hub):
    """Another version appears between the two requests: config and weights are those of the first."""
    model(hub)
    shutil.copytree(hub.models / COMMIT, hub.models / LATER)
    model(hub, LATER, seed=1)
    code = """if True:
        import sys, urllib.request, os
        from spicejax.models import hf
        hf.read_config(sys.argv[1])
        urllib.request.urlopen(os.environ["HF_ENDPOINT"] + "/move")
        print(float(hf.load(sys.argv[1])[1]["norm"]["scale"][0]))
    """
    done = python(code, hub.environment, "org/model")
    assert float(done.stdout) == float(random_params(MODEL, 0)["norm"]["scale"][0]), done.stderr
    assert hub.newest[-1] == LATER


REFUSALS = {
    "gated": (Refusal(403, "GatedRepo",
     "Access to model org/model is restricted and you are not in the authorized list."),
     "it is gated); accept the licence at https://huggingface.co/NAME and log in with `hf auth login`, or set"),
    "not_logged_in": (Refusal(401, "GatedRepo", "Access to model org/model is restricted."),
     "it is gated); accept the licence at https://huggingface.co/NAME and log in with `hf auth login`"),
    "private": (Refusal(401, "RepoNotFound", "Invalid username or password."),
     "there is no such model, or it is private); correct the name, or log in with `hf auth login`, or set HF_TOKEN"),
    "bad_token": (Refusal(401, "", "Invalid credentials in Authorization header"),
     "401: Invalid credentials in Authorization header); log in with `hf auth login`, or set HF_TOKEN"),
    "narrow_token": (Refusal(403, "", "The token lacks the permission read"),
     "403: The token lacks the permission read); log in with `hf auth login`, or set HF_TOKEN"),
}  # fmt: skip


def test_a_refusal_says_what_to_do(hub):
    for kind, (answer, _) in REFUSALS.items():
        hub.refusals[f"org/{kind}"] = answer
    code = """if True:
        import sys
        from spicejax import commands
        for name in sys.argv[1:]:
            assert commands.run("generate", ["--prompt=a", f"--model=org/{name}"]) == 2
    """
    done = python(code, hub.environment, *REFUSALS)
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 0 and len(said) == len(REFUSALS), done.stderr
    for line, (kind, (_, message)) in zip(said, REFUSALS.items(), strict=True):
        message = message.replace("NAME", f"org/{kind}")
        assert line.startswith(f"error: org/{kind}: no such folder, and it could not be downloaded") and message in line
        assert "Request ID" not in line


PUSHES = (
    (Refusal(401, "", "Invalid username or password."), "with a token that may write (`hf auth login`, or HF_TOKEN)"),
    (Refusal(403, "", "You may not create a model under org"), "(403: You may not create a model under org)"),
    (Refusal(500, "", "out of order"), "(500: out of order); with internet"),
)


def test_a_push_that_is_refused_says_what_to_do(hub, tmp_path):
    for number, (answer, _) in enumerate(PUSHES):
        hub.refusals[f"org/{number}"] = answer
    code = """if True:
        import sys
        from pathlib import Path
        from spicejax.report.publish import push
        for name in sys.argv[2:]:
            try:
                push(Path(sys.argv[1]), name, private=False)
            except RuntimeError as error:
                print(error)
    """
    names = [f"org/{number}" for number in range(len(PUSHES))]
    done = python(code, hub.environment | {"HF_TOKEN": "hf_planted"}, tmp_path, *names)
    said = done.stdout.splitlines()
    assert len(said) == len(PUSHES), done.stderr
    for name, line, (_, message) in zip(names, said, PUSHES, strict=True):
        assert line.startswith(f"{tmp_path} is written, but --push={name} failed") and message in line
        assert "Request ID" not in line and "hf_planted" not in line
