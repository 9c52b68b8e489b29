"""Models by their name on the Hugging Face Hub: fetched into its cache once, config and tokenizer before weights."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# What of a repository is read: no weights of other frameworks, no second copy of them.
ABOUT = ("*.json", "*.jinja", "tokenizer.model", "merges.txt", "README.md")  # the card names the license
WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
COPIES = ("original/*", "onnx/*", "openvino/*", "consolidated*")


def is_name(path: str | Path) -> bool:
    """Whether `path` is the name of a model on the Hub: ORG/NAME, and no local file or folder has that name."""
    return isinstance(path, str) and bool(NAME.fullmatch(path)) and not Path(path).exists()


@functools.cache
def fetch(name: str) -> Path:
    """The folder of a model in the Hub's cache (HF_HOME) with its config and tokenizer, downloaded where absent.

    What the cache holds is found without internet.

    Args:
      name: ORG/NAME.
    Raises: FileNotFoundError where they are neither there nor can be downloaded.
    """
    return _snapshot(name, None, ABOUT, (*COPIES, "*.index.json"))


@functools.cache
def fetch_weights(name: str) -> Path:
    """The same folder with the weights too; an interrupted download is continued.

    They are of the commit that `fetch` found, whatever was uploaded since. Raises: as `fetch`.
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
    """Why the Hub refused a request for `name`, and the fix; "" for a fix that is not known."""
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    answer: BaseException | None = error
    while answer is not None and not isinstance(answer, HfHubHTTPError):  # the library's cache wraps it in its own
        answer = answer.__cause__
    login = "log in with `hf auth login`, or set HF_TOKEN"
    if isinstance(answer, GatedRepoError):
        return "it is gated", f"accept the licence at https://huggingface.co/{name} and {login}"
    if isinstance(answer, RepositoryNotFoundError):
        return "there is no such model, or it is private", f"correct the name, or {login}"
    if answer is None:
        reason = " ".join(str(error).split())
        return f"{reason or type(error).__name__:.200}", ""
    status = answer.response.status_code
    reason = answer.response.headers.get("X-Error-Message") or answer.server_message or type(answer).__name__
    return f"{status}: {' '.join(reason.split()):.200}", login if status in (401, 403) else ""
