"""Models by their name on the Hugging Face Hub: fetched once into its cache, where there is internet."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any, get_args

from spicejax.models.config import Family

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# What of a repository is read: no weights of other frameworks, no second copy of them.
PATTERNS = ("*.json", "*.safetensors", "*.jinja", "tokenizer.model", "merges.txt", "README.md")  # its license
COPIES = ("original/*", "onnx/*", "openvino/*", "consolidated*")
KNOWN = (*get_args(Family), "bert")


@functools.cache
def fetch(name: str) -> Path:
    """The folder of a model in the Hub's cache (HF_HOME), downloaded where it is not whole yet; an interrupted
    download goes on. What is there is taken without internet.

    Args:
      name: ORG/NAME.
    Raises: FileNotFoundError where it is neither there nor can be downloaded, ValueError for a model of a family that
      is not known, before its weights are downloaded.
    """
    from huggingface_hub import hf_hub_download, snapshot_download  # here: slow to import

    wanted: Any = {"allow_patterns": list(PATTERNS), "ignore_patterns": list(COPIES)}
    try:
        config = json.loads(Path(hf_hub_download(name, "config.json")).read_text(encoding="utf-8"))
        _require_known(name, config)
        return Path(snapshot_download(name, **wanted))
    except ValueError:
        raise
    except Exception as error:  # the library raises those of whichever HTTP client it has
        try:
            return Path(snapshot_download(name, **wanted, local_files_only=True))
        except Exception:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise FileNotFoundError(
                f"{name}: no such folder, and it could not be downloaded from the Hugging Face Hub ({why:.200}); give "
                f"a folder, or on a machine with internet: hf download {name} --local-dir FOLDER"
            ) from error


def _require_known(name: str, config: dict[str, Any]) -> None:
    if config.get("model_type") not in KNOWN:
        family, known = config.get("model_type"), ", ".join(KNOWN)
        raise ValueError(f"{name} is of the family {family!r}, which is not known here; known are {known}")
