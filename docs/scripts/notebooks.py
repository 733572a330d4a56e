r"""Runs the notebooks of docs/notebooks; build/notebooks gets them with their outputs.

outrider compare drafters=[none,bigram,prompt_lookup,eagle,hybrid,quantized] data.limit=12 turns=1 \
    max_new_tokens=20 hydra.run.dir=runs/demo
python docs/scripts/notebooks.py
"""

import ast
import base64
import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import matplotlib
import pandas
from matplotlib import pyplot

FOLDER = Path(__file__).parents[1] / "notebooks"
OUT = Path("build/notebooks")
DPI = 80

Output = dict[str, Any]


def main(paths: list[Path]) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    for path in paths:
        made = OUT / path.name
        made.write_text(json.dumps(run(path), indent=1, ensure_ascii=False) + "\n")
        print(made)


def run(path: Path, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns a notebook with the outputs of its cells, which are run in this process.

    settings: replace values of the first cell with code.

    Raises:
        KeyError: the first cell has no such setting.
    """
    matplotlib.use("agg")
    notebook: dict[str, Any] = json.loads(path.read_text())
    names: dict[str, Any] = {"__name__": path.stem}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, start=1):
        cell["outputs"] = outputs("".join(cell["source"]), names, number)
        cell["execution_count"] = number
        if number == 1:
            for name, value in (settings or {}).items():
                names[name]  # it exists
                names[name] = value
    return notebook


def outputs(source: str, names: dict[str, Any], number: int) -> list[Output]:
    """Runs a cell in a namespace; returns what it printed, its last value and its figures."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = StringIO(), None
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), f"cell {number}", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    results: list[Output] = []
    if printed.getvalue():
        results.append(
            {"output_type": "stream", "name": "stdout", "text": lines(printed.getvalue())}
        )
    if value is not None:
        is_frame = isinstance(value, pandas.DataFrame)
        data = {"text/plain": lines(value.to_string() if is_frame else repr(value))}
        if hasattr(value, "_repr_html_") and not is_frame:
            data["text/html"] = lines(value._repr_html_())
        results.append(
            {
                "output_type": "execute_result",
                "execution_count": number,
                "data": data,
                "metadata": {},
            }
        )
    for figure in map(pyplot.figure, pyplot.get_fignums()):
        file = BytesIO()
        figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
        png = base64.b64encode(file.getvalue()).decode()
        results.append({"output_type": "display_data", "data": {"image/png": png}, "metadata": {}})
    pyplot.close("all")
    return results


def lines(text: str) -> list[str]:
    """Returns a text as notebooks store it."""
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")))
