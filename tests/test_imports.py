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


@pytest.mark.parametrize(
    "statement",
    [
        "import outrider",
        "from outrider.cli.main import main; sys.argv = ['outrider', '--help']; main()",
        "from outrider.cli.main import main; sys.argv = ['outrider', '--version']; main()",
        "import os; os.environ['COMP_LINE'] = 'outrider ge'; from outrider.cli.main import main;"
        + " sys.argv = ['outrider', '-sc', 'query=bash']; main()",
        "import os; os.environ['COMP_LINE'] = 'outrider generate drafter=small_lm drafter.'; "
        + "from outrider.cli.main import main;"
        + " sys.argv = ['outrider', '-sc', 'query=bash']; main()",
        "from outrider.cli.main import main; sys.argv = ['outrider', 'train', '--help']; main()",
        "from outrider import Command, hookimpl",
    ],
    ids=[
        *("the package", "help", "version", "completion of a command", "completion of a setting"),
        *("help of a command", "what a plugin registers with"),
    ],
)
def test_nothing_heavy_is_imported_by(statement: str) -> None:
    program = f"import sys; {statement}; sys.exit(' '.join({set(HEAVY)} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


SLOW = ("torch", "transformers", "scipy", "pandas", "matplotlib")
"""What no command imports before it runs: PyTorch alone takes two seconds of CPU."""


def test_no_command_imports_anything_slow_before_it_runs(tmp_path: Path) -> None:
    """All of them in one process, which names the first that does."""
    words = [[name, "--help"] for name in builtin().commands]
    words += [[name, "--cfg", "job"] for name, it in builtin().commands.items() if not it.plain]
    program = f"""
import sys
from outrider.cli.main import main
for words in {[*words, ["new-plugin", "my-part"]]}:
    sys.argv = ["outrider", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
    slow = {set(SLOW)} & set(sys.modules)
    assert not slow, (words, slow)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_decoding_imports_no_library_of_commands_and_figures() -> None:
    """A model brings scipy with transformers, which imports it for losses of its own."""
    program = """
import sys, outrider
options = {"sampling": {"temperature": 0.7}, "policy": "fixed", "max_new_tokens": 3}
outrider.generate({"target": "tabular"}, [0, 1], drafter="prompt_lookup", **options)
sys.exit(" ".join({"hydra", "omegaconf", "pandas", "matplotlib", "scipy"} & set(sys.modules)) or 0)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
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
