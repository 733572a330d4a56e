"""Several texts at once are a plugin's: a line says so where it has none."""

from types import SimpleNamespace
from typing import Any

import pytest

from outrider import ConfigError, PluginError, decode_together
from outrider.decoding import batching
from outrider.drafters.none import NoDraft
from outrider.targets.tabular import TabularTarget
from outrider.verifiers.token import Token


@pytest.mark.parametrize(
    ("place", "error", "line"),
    [
        (None, ConfigError, r"several texts at once: expected a plugin with the hook batching\(\)"),
        ("nowhere:Mine", PluginError, "'nowhere:Mine' can't be imported: ModuleNotFoundError"),
        ("builtins:Mine", PluginError, "'builtins:Mine' can't be imported: AttributeError"),
        ("builtins:dict", PluginError, "'builtins:dict' is {}: expected a class of Batching"),
    ],
)
def test_a_plugin_that_brings_no_batching_is_named(
    place: Any, error: Any, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "installed", lambda: SimpleNamespace(batching=place))
    with pytest.raises(error, match=line):
        decode_together(TabularTarget(), NoDraft(), Token(), [[1], [2]])
