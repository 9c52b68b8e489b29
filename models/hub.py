"""Models by their name on the Hugging Face Hub: fetched into its cache once, what says what they are before weights."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

from spicejax.models.families import FAMILIES

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# What of a repository is read: no weights of other frameworks, no second copy of them.
ABOUT = ("*.json", "*.jinja", "tokenizer.model", "merges.txt", "README.md")  # the card names the license
WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
COPIES = ("original/*", "onnx/*", "openvino/*", "consolidated*")
KNOWN = (*FAMILIES, "bert")


def is_name(path: str | Path) -> bool:
    """Whether `path` is the name of a model on the Hub: ORG/NAME, and nothing of that name is here."""
    return isinstance(path, str) and bool(NAME.fullmatch(path)) and not Path(path).exists()


@functools.cache
def fetch(name: str) -> Path:
    """The folder of a model in the Hub's cache (HF_HOME) with its config and tokenizer, downloaded where they are not
    there. What is there is taken without internet.

    Args:
      name: ORG/NAME.
    Raises: FileNotFoundError where they are neither there nor can be downloaded, ValueError for a model of a family
      that is not known.
    """
    folder = _snapshot(name, None, ABOUT, (*COPIES, "*.index.json"))
    if (folder / "config.json").is_file():
        _require_known(name, folder / "config.json")
    return folder


@functools.cache
def fetch_weights(name: str) -> Path:
    """The same folder with the weights too; a download that was interrupted goes on.

    They are of the commit whose config `fetch` has read, whatever was uploaded since. Raises: as `fetch`.
    """
    return _snapshot(name, fetch(name).name, WEIGHTS, COPIES)  # the Hub's cache names a snapshot by its commit


def _snapshot(name: str, commit: str | None, patterns: tuple[str, ...], never: tuple[str, ...]) -> Path:
    from huggingface_hub import snapshot_download  # here: slow to import

    wanted: Any = {"revision": commit, "allow_patterns": list(patterns), "ignore_patterns": list(never)}
    try:
        return Path(snapshot_download(name, **wanted))
    except Exception as error:  # the library raises those of whichever HTTP client it has
        try:
            found = Path(snapshot_download(name, **wanted, local_files_only=True))
        except Exception:
            found = None
        # older libraries give the folder too where a part of it is missing
        if found is not None and (patterns != WEIGHTS or any(found.glob("*.safetensors"))):
            return found
        why, fix = refusal(error, name)
        fix = fix or f"give a folder, or on a machine with internet: hf download {name} --local-dir FOLDER"
        raise FileNotFoundError(
            f"{name}: no such folder, and it could not be downloaded from the Hugging Face Hub ({why}); {fix}"
        ) from error


def refusal(error: BaseException, name: str) -> tuple[str, str]:
    """Why the Hub did not do what was asked of `name`, and what helps; nothing where that is not known."""
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    chain: list[BaseException] = [error]  # the library wraps what the server said in an error of its cache
    while (cause := chain[-1].__cause__) is not None and cause not in chain:
        chain.append(cause)
    found = next((e for e in chain if isinstance(e, HfHubHTTPError)), None)
    login = "log in with `hf auth login`, or set HF_TOKEN"
    if isinstance(found, GatedRepoError):
        return "it is gated", f"accept the licence at https://huggingface.co/{name} and {login}"
    if isinstance(found, RepositoryNotFoundError):
        return "there is no such model, or it is private", f"correct the name, or {login}"
    if found is None:
        said = " ".join(str(error).split())
        return f"{said or type(error).__name__:.200}", ""
    status = found.response.status_code
    said = found.response.headers.get("X-Error-Message") or found.server_message or type(found).__name__
    return f"{status}: {' '.join(said.split()):.200}", login if status in (401, 403) else ""


def _require_known(name: str, file: Path) -> None:
    try:
        family = json.loads(file.read_text(encoding="utf-8")).get("model_type")
    except (ValueError, AttributeError):
        return  # whoever reads it says what is wrong with it
    if family not in KNOWN:
        raise ValueError(f"{name} is of the family {family!r}, which is not known here; known are {', '.join(KNOWN)}")
