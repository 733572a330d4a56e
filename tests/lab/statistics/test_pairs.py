"""Which drafters are compared with each other, and what they are corrected for."""

import itertools

import numpy as np
import pytest

from outrider.base.errors import ConfigError
from outrider.lab.statistics.intervals import ratio
from outrider.lab.statistics.pairs import Comparison, check_reference, comparable, is_control
from outrider.lab.statistics.pairs import tested as pairs_of
from outrider.lab.statistics.permutation_test import holm


def config(drafter: str, policy: str = "fixed") -> dict[str, dict[str, str]]:
    return {"drafter": {"_target_": drafter}, "policy": {"_target_": policy}}


def test_drafters_are_compared_under_the_same_policy() -> None:
    configs = {f"{d}/{p}": config(d, p) for d in "ab" for p in ("fixed", "entropy")}
    assert comparable(list(configs), configs) == [
        ("a/fixed", "b/fixed"),
        ("a/entropy", "b/entropy"),
    ]


def test_policies_of_one_drafter_are_compared_with_the_first() -> None:
    """Eight policies gave 28 pairs of a drafter with itself."""
    configs = {f"a/{p}": config("a", str(p)) for p in range(8)}
    pairs = comparable(list(configs), configs)
    assert pairs == [(name, "a/0") for name in list(configs)[1:]]


def test_controls_are_left_out_by_config_or_name() -> None:
    assert is_control("calm", config("outrider.drafters.none.NoDraft"))
    assert not is_control("none", config("mine"))
    assert is_control("random", {})
    configs = {"none": config("outrider.drafters.none.NoDraft"), "a": config("a")}
    assert comparable(list(configs), configs) == []
    assert comparable([], {}) == []


def test_a_drafter_with_a_rule_of_its_own_is_compared_with_all() -> None:
    configs = {f"{d}/{p}": config(d, p) for d in "ab" for p in ("fixed", "entropy")}
    configs["tree"] = config("tree", "own")
    assert [pair for pair in comparable(list(configs), configs) if "tree" in pair] == [
        (name, "tree") for name in configs if name != "tree"
    ]


def test_a_reference_is_compared_with_the_others_alone() -> None:
    configs = {name: config(name) for name in ("a", "mine", "b")}
    assert comparable(list(configs), configs, "mine") == [("mine", "a"), ("mine", "b")]
    assert comparable(["a", "b"], configs, "mine") == []  # it has no such rate
    crossed = {f"{d}/{p}": config(d, p) for d in "ab" for p in ("fixed", "entropy")}
    assert comparable(list(crossed), crossed, "a") == [
        ("a/fixed", "b/fixed"),
        ("a/entropy", "b/entropy"),
    ]
    assert [other for _, other in comparable(list(crossed), crossed, "a/fixed")] == [
        "a/entropy", "b/fixed", "b/entropy",
    ]  # fmt: skip


def test_a_reference_that_is_none_of_the_drafters_is_refused() -> None:
    configs = {"bigram": config("a"), "none": config("outrider.drafters.none.NoDraft")}
    check_reference(None, configs)
    check_reference("bigram", configs)
    for wrong in ("bigrm", "none", 3):
        with pytest.raises(ConfigError, match=r"^reference=.*bigram$"):
            check_reference(wrong, configs)


def test_a_family_is_one_rate() -> None:
    random = np.random.default_rng(0)
    rates = [ratio(random.normal(2, 1, 9), np.ones(9)) for _ in range(4)]
    comparisons = [
        Comparison(rate, "a", "b", one, other)
        for rate in ("alpha", "speedup")
        for one, other in itertools.pairwise(rates)
    ]
    pairs = pairs_of(comparisons)
    assert [pair.family for pair in pairs] == [3] * 6
    assert [pair.p_holm for pair in pairs[:3]] == holm([pair.p for pair in pairs[:3]])
    assert pairs[0].opposite.opposite == pairs[0]
    assert pairs[0].opposite.difference.value == -pairs[0].difference.value
