"""Run notebooks and keep what comes out of them: python benchmarks/notebooks.py FOLDER [NAME ...]

FOLDER is where they run, with the documents of the first in FOLDER/documents; what its runs have there already is not
trained again. Kept are pictures and what is printed, in one piece and without the folder's name; pages of HTML and
warnings are left out. Without libtpu, which complains on machines that have no TPU.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
PATIENCE = 3600  # seconds of a cell


def kept(outputs: list[Any], folder: str) -> list[Any]:
    """Outputs of a cell as they are kept."""
    found: list[Any] = []
    for output in outputs:
        if output.output_type == "error":
            raise RuntimeError("\n".join(output.traceback))
        if output.get("name") == "stderr":
            continue
        if output.output_type != "stream":
            output.data.pop("text/html", None)
        elif found and found[-1].output_type == "stream":
            found[-1].text += output.text.replace(f"{folder}/", "")
            continue
        else:
            output.text = output.text.replace(f"{folder}/", "")
        found.append(output)
    return found


def main(folder: str, *names: str) -> None:
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if names and path.stem not in names:
            continue
        book = nbformat.read(path, as_version=4)
        place = str(Path(folder).resolve())
        nbclient.NotebookClient(book, timeout=PATIENCE, resources={"metadata": {"path": place}}).execute()
        for cell in book.cells:
            cell.metadata.pop("execution", None)  # when each cell ran
            if cell.cell_type == "code":
                cell.outputs = kept(cell.outputs, place)
        book.metadata.language_info = {"name": "python"}
        nbformat.write(book, path)
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main(*sys.argv[1:])
