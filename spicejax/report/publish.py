"""A written folder on the Hugging Face Hub: what --push of a command does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from spicejax.errors import SpicejaxError
from spicejax.models import hub

_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def require_name(name: str | None) -> None:
    """Before anything is written. Raises ValueError for what is no name of the Hub."""
    if name is not None and not _NAME.fullmatch(name):
        raise ValueError(f"--push={name}: give ORG/NAME")


def push(folder: Path, name: str, *, private: bool, kind: Literal["model", "dataset"] = "model") -> str:
    """Upload a folder; return its address. Raises SpicejaxError where the Hub is not reached or refuses."""
    from huggingface_hub import HfApi

    try:
        api = HfApi()
        api.create_repo(name, repo_type=kind, private=private, exist_ok=True)
        return str(api.upload_folder(folder_path=folder, repo_id=name, repo_type=kind))
    except Exception as error:  # the library raises those of whichever HTTP client it has
        why, fix = hub.refusal(error, name)
        with_what = "a token that may write (`hf auth login`, or HF_TOKEN)" if fix else "internet and `hf auth login`"
        typed = f"hf upload {name} {folder}" + " --repo-type=dataset" * (kind == "dataset") + " --private" * private
        raise SpicejaxError(
            f"{folder} is written, but --push={name} failed ({why}); with {with_what}, the same command, or `{typed}`, "
            "goes on"
        ) from error
