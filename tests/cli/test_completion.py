"""A press of Tab completes commands, groups, names and settings without importing any part."""

import pytest

from outrider.cli.completion import completions
from outrider.plugins import registry
from outrider.plugins.entry import Entry


@pytest.mark.parametrize(
    ("line", "choices"),
    [
        ("outrider ge", ["generate"]),
        ("outrider check verifier=bl", ["verifier=block"]),
        ("outrider report mul", []),
        ("outrider gone ", []),
        ("outrider generate dra", ["draft_timeout=", "drafter.", "drafter="]),
        ("outrider generate drafter.m", ["drafter.max_n=", "drafter.min_n="]),
        ("outrider generate drafter=small_lm drafter.m", ["drafter.model="]),
        ("outrider train recipe=eagle recipe.schedule.e", ["recipe.schedule.epochs=",
                                                           "recipe.schedule.evaluate="]),
        ("outrider compare +experiment=chen", ["+experiment=chen", "+experiment=chen_table1"]),
        ("outrider compare data=hub data.su", ["data.subset="]),
        ("outrider compare data=gone data.", []),
    ],
)  # fmt: skip
def test_choices(line: str, choices: list[str]) -> None:
    assert completions(line) == choices


def test_settings_of_registered_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(limit: int | None = None) -> list[str]:
        return []

    parts = registry.Registry([*registry.builtin().entries])
    parts.entries.append(Entry("data", "mine", mine, "mine", "strange-dist"))
    for module in ("outrider.cli.completion", "outrider.cli.usage"):
        monkeypatch.setattr(f"{module}.installed", lambda: parts)
    assert completions("outrider compare data=mi") == ["data=mine"]
    assert completions("outrider compare data=mine data.") == ["data.limit="]
