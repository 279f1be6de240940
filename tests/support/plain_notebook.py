"""Executes a notebook of plain Python without Jupyter, so that tests need none of its packages.

Each cell runs in one name space, and the value of its last line becomes the output.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import tempfile
from contextlib import chdir, redirect_stdout
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
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    if value is not None:
        data = {"text/plain": repr(value)}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": value._repr_html_()}
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
