"""notebooks/: each is run from top to bottom, on this machine, as a reader would with the nano recipes."""

from pathlib import Path

import pytest
from processes import PATIENCE
from tiny_runs import SEARCH, SPICE

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CORPUS = {f"{name}.txt": f"{name} lies in the land of {land}. " * 8 for name, land in (("Aba", "Umo"), ("Obo", "Emu"))}


# A tiny model gets a task right now and then only where no document is asked
PLAIN = SPICE | {"spice.grounding": "none"}


def fields(tiny: dict[str, str], cache: Path) -> list[str]:
    changes = tiny | {"iterations": "2", "nano.cache": str(cache)}
    return [f"{key}={value}" for key, value in changes.items()]


def write(folder: Path) -> None:
    """The corpus."""
    folder.mkdir()
    for name, text in CORPUS.items():
        (folder / name).write_text(text)


def executed(name: str, folder: Path, parameters: str) -> str:
    """Run a notebook in a folder, with parameters after the cell that has its own; return all that it printed."""
    book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    assert len(book.cells) <= 24
    for cell in book.cells:
        cell.pop("outputs", None)
        cell |= {"outputs": []} if cell.cell_type == "code" else {}
    (at,) = (i for i, cell in enumerate(book.cells) if "parameters" in cell.metadata.get("tags", ()))
    book.cells.insert(at + 1, nbformat.v4.new_code_cell(parameters))
    nbclient.NotebookClient(book, timeout=PATIENCE, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    return "".join(output.get("text", "") or str(output.get("data", {})) for output in outputs)


def test_your_documents(tmp_path, cache):
    write(tmp_path / "texts")
    small = 'RECIPE, MODEL, DOCUMENTS, RUN = "spice_nano", "", Path("texts"), place.home / "spice_nano"\n'
    said = executed("1_your_documents", tmp_path, f"{small}FIELDS = {fields(PLAIN, cache)}")
    assert "here: 1 x cpu" in said and "iteration 2/2" in said and "model.safetensors" in said
    assert "2 files" in said and "Umo" in (tmp_path / "runs" / "spice_nano" / "documents.jsonl").read_text()
    assert "srcdoc=" in said and (tmp_path / "runs" / "spice_nano-questions" / "README.md").is_file()


def test_one_iteration(tmp_path, cache):
    said = executed("2_one_iteration", tmp_path, f"FIELDS = {fields(PLAIN, cache)}")
    assert "challenger reward" in said and "reasoner reward" in said and "learner/sampler_gap" in said


@pytest.mark.slow  # the steps of 1_your_documents, on another game
def test_search(tmp_path, cache):
    write(tmp_path / "texts")
    said = executed("3_search_your_corpus", tmp_path, f'CORPUS = "texts"\nFIELDS = {fields(SEARCH, cache)}')
    assert "eval/accuracy" in said and "Answer:" in said and "2 passages" in said


@pytest.mark.slow  # three runs, as 1_your_documents makes one
def test_compare(tmp_path, cache):
    said = executed("4_read_and_compare", tmp_path, f"FIELDS = {fields(PLAIN, cache)}")
    assert "attempts, refused for" in said and "image/png" in said and "spice.fixed_challenger" in said
