"""Every registered part is a config option, with the types and defaults of its signature."""

from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import pytest
from hydra import initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

import outrider
from outrider import ConfigError, PluginError
from outrider.plugins.config import build, compose
from outrider.plugins.entry import Entry
from outrider.plugins.options import CONF_MODULE, Options, offer_options, option_schema

ROOT = Path(__file__).parents[2]
CONF = (ROOT / "conf", *ROOT.glob("extras/*/conf"))


def configs(pattern: str) -> list[str]:
    """Returns the names of the config files of the core and of all products that match."""
    return sorted(path.stem for folder in CONF for path in folder.glob(pattern))


@pytest.fixture(autouse=True, scope="module")
def parts() -> None:
    offer_options()


def entry(factory: type) -> Entry:
    return Entry("data", "odd", factory, "odd_plugin", "odd-dist")


@dataclass(frozen=True)
class Net:
    """A nested setting."""

    width: int = 8


class Takes:
    """A part that keeps what its constructor is given."""

    def __init__(
        self,
        widths: Any = None,
        rates: dict[str, Any] | None = None,
        mode: Literal["plain", "scaled"] | None = None,
        **more: Any,
    ) -> None:
        self.given = (widths, rates, more)


def test_lists_and_mappings_reach_a_constructor_as_such() -> None:
    node = OmegaConf.create({"widths": [1, [2]], "rates": {"a": {"b": [3]}}, "extra": {"c": 4}})
    node["_target_"] = f"{__name__}.{Takes.__name__}"
    widths, rates, more = build(node).given
    assert (widths, rates, more) == ([1, [2]], {"a": {"b": [3]}}, {"extra": {"c": 4}})
    inner = (widths, widths[1], rates, rates["a"], rates["a"]["b"], more["extra"])
    assert [type(it) for it in inner] == [list, list, dict, dict, list, dict]


class Plain:
    """A part that declares no bounds of its own."""

    def __init__(
        self, mode: Literal["plain", "scaled"] | None = None, order: int = 2, net: Net | None = None
    ) -> None:
        self.given = (mode, order, net)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"mode": "scald"}, "drafter.mode='scald': expected one of plain, scaled, or null; did yo"),
        ({"order": "few"}, "drafter.order='few': expected a whole number"),
        ({"ordre": 3}, "drafter.ordre: did you mean 'order' or"),
        ({"net": {"widht": 3}}, "drafter.net.widht: did you mean 'width'?"),
        ({"net": {"width": "few"}}, "drafter.net.width='few': expected a whole number"),
        ({"order": "???"}, "drafter.order: expected a value: drafter.order=..."),
    ],
)
def test_a_part_need_not_judge_its_settings_itself(settings: Any, line: str) -> None:
    node = {"_target_": f"{__name__}.Plain", **settings}
    with pytest.raises(ConfigError) as caught:
        build(OmegaConf.create({"drafter": node}).drafter)
    assert str(caught.value).startswith(line)


def test_the_signature_is_the_config() -> None:
    place = f"{__name__}.{Plain.__name__}"
    node = {"_target_": place, "mode": None, "order": 2, "net": None}
    assert option_schema(entry(Plain)) == node


def test_a_parameter_without_default_is_mandatory() -> None:
    class Odd:
        def __init__(self, path: str, *rest: int, **more: int) -> None: ...

    node = option_schema(entry(Odd))
    assert OmegaConf.is_missing(node, "path")
    assert "rest" not in node
    assert "more" not in node


def test_a_default_that_no_config_can_hold_is_an_error_that_names_the_distribution() -> None:
    class Odd:
        def __init__(self, thing: object = object) -> None: ...

    with pytest.raises(PluginError, match="data 'odd' of odd-dist has a default"):
        option_schema(entry(Odd))


@pytest.mark.parametrize(
    ("path", "is_there"),
    [
        ("compare", False),
        ("other/bigram", False),
        ("drafter/bigram", True),
        ("drafter/bigram.yaml", True),
    ],
)
def test_configs_that_are_made_when_they_are_read(path: str, is_there: bool) -> None:
    assert Options("test", "outrider://").is_config(path) == is_there


@pytest.mark.parametrize("name", configs("sampling/*.yaml"))
def test_every_sampling_instantiates(name: str) -> None:
    config = compose("generate", [f"sampling={name}", "prompt=hi"])
    assert isinstance(build(config.sampling), outrider.Sampling)


@pytest.mark.parametrize("name", configs("recipe/*.yaml"))
def test_every_recipe_takes_its_settings(name: str) -> None:
    """Building a recipe takes every setting of its file; running it takes a job."""
    recipe = build(compose("train", [f"recipe={name}"]).recipe)
    assert list(signature(recipe).parameters) == ["job"]


def test_every_yaml_file_is_tried_by_a_test_here() -> None:
    # commands: cli/; experiment, paper and launcher: cli/commands/; training: the recipes
    elsewhere = {"experiment", "paper", "hydra/launcher", "training"}
    folders = {
        str(path.parent.relative_to(folder)) for folder in CONF for path in folder.rglob("*.yaml")
    }
    assert folders <= {".", "sampling", "recipe"} | elsewhere


def test_a_command_may_compose_the_config_of_another() -> None:
    with initialize_config_module(CONF_MODULE, version_base="1.3"):
        running, own = GlobalHydra.instance().hydra, HydraConfig.instance().cfg
        assert outrider.compose("generate", ["gamma=3"]).gamma == 3
        assert HydraConfig.instance().cfg is own
        with pytest.raises(ConfigError, match="gama: no such setting"):
            outrider.compose("generate", ["gama=3"])
        assert GlobalHydra.instance().hydra is running
    assert GlobalHydra.instance().hydra is None


def test_entries_of_the_callers_own_store_are_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    store = ConfigStore.instance()
    monkeypatch.setattr(store, "repo", dict(store.repo))
    for name in ("generate", "generate_schema", "decoding"):
        store.store(name, {"mine": 1})
    for group, name in {"drafter": "bigram", "sampling": "standard", "verifier": "own"}.items():
        store.store(name, {"mine": 1}, group)
    config = compose("generate", ["drafter=bigram", "sampling=standard"])
    assert "mine" not in {*config, *config.drafter, *config.sampling}
    with pytest.raises(ConfigError, match="verifier='own': did you mean"):
        compose("generate", ["verifier=own"])
    assert "drafter" in store.repo
