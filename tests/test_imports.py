"""What is imported when: the heavy libraries only where a command needs them."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import outrider
from outrider.plugins.registry import builtin

HEAVY = ("torch", "transformers", "hydra", "omegaconf", "numpy", "scipy")


CALLS = (
    (["--help"], ""), (["--version"], ""), (["train", "--help"], ""),
    (["-sc", "query=bash"], "outrider ge"),
    (["-sc", "query=bash"], "outrider generate drafter=small_lm drafter."),
)  # fmt: skip
"""What the command is called with, and the line that a shell completes."""


SLOW = ("torch", "transformers", "scipy", "pandas", "matplotlib")
"""What no command imports before it runs: PyTorch alone takes two seconds of CPU."""


def test_nothing_heavy_is_imported_before_a_command_runs(tmp_path: Path) -> None:
    """Of all calls in one process, which names the first that does; settings need Hydra."""
    known = builtin().commands
    settings = [[name, "--cfg", "job"] for name, it in known.items() if not it.plain]
    others = [*([name, "--help"] for name in known), *settings, ["new-plugin", "my-part"]]
    calls = [*((words, line, HEAVY) for words, line in CALLS), *((it, "", SLOW) for it in others)]
    done = in_one_process(
        f"""
import os
import outrider
from outrider import Command, hookimpl
from outrider.cli.main import main
for words, line, unwanted in {calls}:
    os.environ["COMP_LINE"], sys.argv = line, ["outrider", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
    found = set(unwanted) & set(sys.modules)
    assert not found, (words, line, found)
""",
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")


def in_one_process(program: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", f"import sys\n{program}"]
    return subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)


def test_decoding_imports_no_library_of_commands_and_figures() -> None:
    """A model brings scipy with transformers, which imports it for losses of its own."""
    done = in_one_process("""
import outrider
options = {"sampling": {"temperature": 0.7}, "policy": "fixed", "max_new_tokens": 3}
outrider.generate({"target": "tabular"}, [0, 1], drafter="prompt_lookup", **options)
sys.exit(" ".join({"hydra", "omegaconf", "pandas", "matplotlib", "scipy"} & set(sys.modules)) or 0)
""")
    assert done.returncode == 0, done.stderr


def test_public_names_are_found_and_listed() -> None:
    for name in outrider.__all__:
        assert getattr(outrider, name) is not None
    assert {*outrider.__all__, "__version__"} <= set(dir(outrider))


def test_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = outrider.nothing


def test_python_runs_the_package_as_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "outrider", "--version"], check=True, capture_output=True, text=True
    )
    assert done.stdout == f"outrider {outrider.__version__}\n"


UNIX = {"fcntl", "grp", "pwd", "resource", "termios", "tty"}
"""Modules of the standard library that Windows lacks."""


def test_modules_of_unix_are_imported_only_where_they_are_used() -> None:
    """All modules of Outrider can be imported on Windows."""
    root = Path(__file__).parent.parent
    found = [
        f"{path}: {name}"
        for part in ("core", "constraints", "drafters", "extras", "policies", "verifiers")
        for path in (root / part).rglob("*.py")
        for name in imported_at_once(ast.parse(path.read_text(encoding="utf-8")))
        if name.partition(".")[0] in UNIX
    ]
    assert not found


def imported_at_once(module: ast.Module) -> Iterator[str]:
    """Yields the modules that are imported as soon as a module is."""
    for node in module.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
