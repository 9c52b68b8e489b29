"""The wheel: models, configs, prompts and tables arrive inside spicejax, and nothing else lands beside it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from processes import PATIENCE, installed

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_wheel(tmp_path):
    environment = installed(tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"spicejax"}
    expected = [path.relative_to(ROOT) for pattern in ("models/*.py", "configs/*.py") for path in ROOT.glob(pattern)]
    expected = [Path("spicejax") / path for path in expected]
    data = [p for kind in ("prompts/*.txt", "prompts/*.json", "tables/*.tsv") for p in (ROOT / "spicejax").rglob(kind)]
    missing = {path.as_posix() for path in (*expected, *(path.relative_to(ROOT) for path in data))} - names
    assert len(expected) > 10 and len(data) > 20 and not missing

    code = "import spicejax.models.transformer as t, spicejax.configs as c; print(t.__file__); print(len(c.names()))"
    options = {"cwd": tmp_path, "env": environment}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True, **options
    )
    file, count = done.stdout.split()
    assert file == str(tmp_path / "site" / "spicejax" / "models" / "transformer.py")
    assert int(count) == len(list((ROOT / "configs").glob("*.py"))) - 1
