"""Settings: every setting of a command's file is in its dataclass, with a type and bounds."""

from dataclasses import fields
from typing import Any

import pytest

from outrider import ConfigError
from outrider.plugins.config import compose
from outrider.plugins.reading import plain_settings, read_settings
from outrider.plugins.registry import installed

COMMANDS = {name: command for name, command in installed().commands.items() if not command.plain}
NEEDED = {"audit": ["url=http://localhost"], "generate": ["prompt=hi", "target=tabular"]}


@pytest.mark.parametrize("name", COMMANDS)
def test_file_and_dataclass_have_the_same_settings(name: str) -> None:
    config = compose(name, NEEDED.get(name, []))
    kind = COMMANDS[name].settings_class
    optional = {field.name for field in fields(kind) if field.default is None}
    assert set(config) - optional == {field.name for field in fields(kind)} - optional
    settings = read_settings(kind, config)
    assert type(settings) is kind
    assert plain_settings(settings).keys() >= set(config) - optional


def test_the_objective_of_a_comparison_is_a_rate_or_a_score() -> None:
    kind = COMMANDS["compare"].settings_class
    for name in ("speedup_median", "rouge2", "rouge2_difference"):
        config = compose("compare", [f"objective={name}"])
        assert read_settings(kind, config).objective == name
    with pytest.raises(ConfigError, match=r"objective='rouge': .*did you mean 'rouge2'"):
        read_settings(kind, compose("compare", ["objective=rouge"]))


def test_values_of_variables_have_the_types_of_their_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_GAMMA", "3")
    config = compose("generate", [*NEEDED["generate"], "gamma=${oc.env:MY_GAMMA}"])
    settings: Any = read_settings(COMMANDS["generate"].settings_class, config)
    assert settings.gamma == 3
