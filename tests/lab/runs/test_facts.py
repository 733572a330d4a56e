"""Facts of two starts: what differs is named, and what may differ is left out."""

from pathlib import Path

import pytest

from outrider import ConfigError
from outrider.lab.runs.facts import as_json, changed_drafters, changes, check_same, lasting_facts

SAVED = {
    "settings": {"gamma": 3, "sampling": {"temperature": 0}},
    "drafters": {"none": {}, "mine": {}},
    "identity": {"outrider": "1", "none": "a", "mine": "b"},
    "starts": [{"load": 0.5}],
}


def test_changes_have_dotted_keys_and_both_values() -> None:
    now = {**SAVED, "settings": {"gamma": 4, "sampling": {"temperature": 0}}, "budget": 8}
    assert list(changes(SAVED, now)) == [("settings.gamma", 3, 4), ("budget", None, 8)]
    with pytest.raises(ConfigError, match=r"^resume: gamma is 4 now, and was 3 in here$"):
        check_same(SAVED, now, Path("here"))


def test_a_changed_drafter_and_later_starts_are_no_change() -> None:
    now = {**SAVED, "identity": {**SAVED["identity"], "mine": "c"}, "starts": []}
    changed = changed_drafters(SAVED, now)
    assert changed == ["mine"]
    assert lasting_facts(SAVED, changed) == lasting_facts(now, changed)
    assert lasting_facts(SAVED, []) != lasting_facts(now, [])


def test_facts_are_compared_as_json_gives_them_back() -> None:
    assert as_json({"protocols": ("decode",)}) == {"protocols": ["decode"]}
