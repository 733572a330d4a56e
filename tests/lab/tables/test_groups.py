"""Acceptance is told by task, script and part, with the worst group named."""

from outrider.lab.measuring.measurement import Decoding, Measurement, Step
from outrider.lab.tables.groups import groups_of, groups_table


def step(pieces: tuple[str, ...], tested: int, accepted: int) -> Step:
    return Step((7,) * len(pieces), (), pieces, 3, tested, accepted, (), (), 0.1, 0.0, 0.0, None)


def text(prompt: str, task: str, *steps: Step) -> list[Measurement]:
    decoding = Decoding(steps, 1.0, 1.0, 1.0, prompt_tokens=10)
    return [Measurement(prompt, 1, task, "x", decoding=decoding)]


def test_groups_are_tasks_scripts_and_thinking_or_answers() -> None:
    thought = (step(("<think>", "hm"), 4, 1), step(("</think>",), 2, 1), step(("so",), 4, 3))
    plain = (step(("да", "нет"), 4, 4),)
    prompts = [text(f"a{i}", "math", *thought) for i in range(6)]
    prompts += [text(f"b{i}", "chat", *plain) for i in range(6)]
    found = {(kind, name): (it.value, tested) for kind, name, it, tested in groups_of(prompts, {})}
    assert found["task", "math"] == (0.5, 60) and found["task", "chat"] == (1, 24)
    assert found["language", "LATIN"] == (0.5, 60) and found["language", "CYRILLIC"] == (1, 24)
    assert found["part", "thinking"] == (2 / 6, 36) and found["part", "answer"] == (3 / 4, 24)
    named = {f"{it}{i}": language for it, language in (("a", "en"), ("b", "ru")) for i in range(6)}
    assert {name for kind, name, *_ in groups_of(prompts, named) if kind == "language"} == {
        "en",
        "ru",
    }
    assert not any(kind == "position" for kind, _ in found)  # one stretch is no comparison
    assert groups_table("x", groups_of(prompts, {})).notes == ()  # all prompts of a group agree


def test_the_worst_group_has_an_interval() -> None:
    texts = [text(f"a{i}", "math", step(("x",), 4, i % 3)) for i in range(8)]
    texts += [text(f"b{i}", "chat", step(("x",), 4, 2 + i % 2)) for i in range(8)]
    rare = [text("c", "rare", step(("x",), 4, 0))]
    assert groups_table("x", groups_of(texts + rare, {})).notes == ("worst: task, math",)
