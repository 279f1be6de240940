"""Execute the notebooks of the documentation and store their outputs: `make notebooks`.

Each runs with Jupyter's own kernel in an empty folder. `mkdocs_hooks.py` makes pages of them, so
that the site can be built without Jupyter; `tests/docs/test_notebooks.py` compares the stored
outputs of the quick ones with new ones.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def execute(path: Path) -> None:
    """Execute a notebook in place. Raises CellExecutionError for a cell that fails."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=900, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.clear()  # Times of execution differ in each run.
        for output in cell.get("outputs", ()):
            if "text/html" in output.get("data", {}):
                del output.data["text/plain"]  # Nobody reads the repr beside the table.
    notebook.metadata.get("language_info", {}).pop("version", None)
    nbformat.write(notebook, path)
    print(f"Executed {path.relative_to(NOTEBOOKS.parents[1])}")


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else sorted(NOTEBOOKS.glob("*.ipynb")):
        execute(path.resolve())
