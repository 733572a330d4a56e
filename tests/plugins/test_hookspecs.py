"""Every hook says what it takes, and the docs repeat it."""

import inspect
from pathlib import Path

from outrider.plugins import hookspecs

DOCS = Path(__file__).parents[2] / "docs" / "plugins" / "doors.md"


def test_plugin_hooks_are_documented() -> None:
    text = DOCS.read_text()
    hooks = {
        name: hook
        for name, hook in inspect.getmembers(hookspecs, inspect.isfunction)
        if hasattr(hook, "outrider_spec")
    }
    assert len(hooks) == 13
    for name, hook in hooks.items():
        arguments = ", ".join(inspect.signature(hook).parameters)
        assert f"| `{name}({arguments})` |" in text
        assert hook.__doc__
