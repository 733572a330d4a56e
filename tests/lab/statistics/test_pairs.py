"""Which drafters are compared with each other."""

from outrider.lab.statistics.pairs import comparable, is_control


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
