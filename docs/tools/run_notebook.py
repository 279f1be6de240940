"""Execute a notebook and store its outputs: `python docs/tools/run_notebook.py NOTEBOOK`.

A notebook of plain Python needs no kernel: each cell is executed here, in one name space, and the
value of its last line becomes the output, as Jupyter shows it. So the documentation needs no
further packages, and a test can compare the stored outputs with new ones.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import json
import os
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

Cell = dict[str, Any]


def execute(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook with the outputs of its code cells; it runs in a temporary folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, number = [], 0
    with tempfile.TemporaryDirectory() as folder, chdir(folder), asyncio.Runner() as runner:
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                number += 1
                outputs = _run("".join(cell["source"]), names, runner, number)
                cells.append(cell | {"execution_count": number, "outputs": outputs})
            else:
                cells.append(cell)
    return notebook | {"cells": cells}


def _run(
    source: str, names: dict[str, Any], runner: asyncio.Runner, number: int
) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body[-1]
    value = None
    with redirect_stdout(io.StringIO()) as printed:
        if isinstance(last, ast.Expr):
            _evaluate(ast.Module(tree.body[:-1], []), "exec", names, runner)
            value = _evaluate(ast.Expression(last.value), "eval", names, runner)
        else:
            _evaluate(tree, "exec", names, runner)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        data = {"text/plain": [_without_address(repr(value))]}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": [value._repr_html_()], "text/plain": [type(value).__name__]}
        result = {"output_type": "execute_result", "execution_count": number}
        outputs.append(result | {"metadata": {}, "data": data})
    return outputs


def _evaluate(
    tree: ast.Module | ast.Expression, mode: str, names: dict[str, Any], runner: asyncio.Runner
) -> Any:
    code = compile(tree, "<cell>", mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    value = eval(code, names)
    if not inspect.iscoroutine(value):
        return value

    async def awaited() -> Any:
        return await value

    return runner.run(awaited())


def _without_address(text: str) -> str:
    return text.split(" at 0x", maxsplit=1)[0] + ">" if " at 0x" in text else text


def main(path: Path) -> None:
    """Execute a notebook in place."""
    notebook = execute(json.loads(path.read_text("utf-8")))
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "80")
    main(Path(sys.argv[1]))
