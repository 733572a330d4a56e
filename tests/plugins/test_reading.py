"""Lists of parts in a setting become their configs by name when the settings are read."""

from pathlib import Path

import pytest

from outrider import ConfigError
from outrider.cli.settings import Compare
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.plugins.config import build, compose
from outrider.plugins.options import offer_options
from outrider.plugins.reading import option_configs, plain_settings, read_settings


@pytest.fixture(autouse=True, scope="module")
def parts() -> None:
    offer_options()


def test_lists_of_parts_are_composed_where_settings_are_read() -> None:
    words = (
        "drafters=[none,{drafter: bigram, order: 3, verifier: block, gamma: 8}]",
        *("policies=[{policy: fixed, name: always}]", "quality=rouge2", "reports=[]"),
    )
    settings = read_settings(Compare, compose("compare", words))
    assert list(settings.drafters) == ["none", "bigram (block, gamma 8)"]
    own = settings.drafters["bigram (block, gamma 8)"]
    assert (own["drafter"].order, own["gamma"]) == (3, 8)
    assert own["verifier"]["_target_"] == "outrider.verifiers.block.Block"
    assert (list(settings.policies), list(settings.quality)) == (["always"], ["rouge2"])
    assert (settings.reports, settings.verifiers) == ({}, None)
    plain = plain_settings(settings)
    assert plain["drafters"]["none"] == {"drafter": {"_target_": "outrider.drafters.none.NoDraft"}}


def test_drafters_are_named_or_described() -> None:
    configs = option_configs(
        "drafter",
        ["none", {"drafter": "prompt_lookup", "max_n": 2, "name": "short"}, "prompt_lookup"],
    )
    assert list(configs) == ["none", "short", "prompt_lookup"]
    assert isinstance(build(configs["short"]), PromptLookup)
    assert configs["short"].max_n == 2
    assert configs["prompt_lookup"].max_n == 3


def test_a_class_by_its_place_and_an_instance_are_parts() -> None:
    """The place's settings are checked as those of a registered part; an instance has its own."""
    place = "outrider.drafters.prompt_lookup.PromptLookup"
    own = PromptLookup()
    configs = option_configs("drafter", [{"_target_": place, "max_n": 2, "name": "near"}, own])
    assert list(configs) == ["near", "PromptLookup"]
    assert (configs["near"].max_n, configs["near"].min_n) == (2, 1)
    assert isinstance(build(configs["near"]), PromptLookup)
    assert build(configs["PromptLookup"]) is own
    with pytest.raises(ConfigError, match=r"drafters: PromptLookup.maxn: did you mean 'max_n'"):
        option_configs("drafter", [{"_target_": place, "maxn": 2}])
    with pytest.raises(ConfigError, match="No module named 'no_such'"):
        option_configs("drafter", [{"_target_": "no_such.Drafter"}])


def test_a_mandatory_argument_can_be_given(foresight: Path) -> None:
    configs = option_configs("policy", ["fixed", {"policy": "classifier", "path": str(foresight)}])
    assert type(build(configs["classifier"])).__name__ == "Classifier"


def test_an_optional_item_is_left_out_without_such_a_part() -> None:
    items = [{"drafter": "gone", "optional": True}, {"drafter": "bigram", "optional": True}]
    assert list(option_configs("drafter", items)) == ["bigram"]


@pytest.mark.parametrize(
    ("wanted", "line"),
    [
        ("none", "drafters='none': expected a list, such as"),
        (["promt_lookup"], "drafters: 'promt_lookup': did you mean 'prompt_lookup'?"),
        ([3], "drafters: 3: expected a name, or a mapping with 'drafter' or '_target_', or an"),
        (["bigram", "bigram"], "drafters: two are named 'bigram': expected another name"),
        (["none", "dflash"], "dflash.path: expected a value, as in {drafter: dflash, path: ...}"),
    ],
)
def test_a_list_of_drafters_that_makes_no_sense(wanted: object, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        option_configs("drafter", wanted)
    assert line in str(caught.value)
