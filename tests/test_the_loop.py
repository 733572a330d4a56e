"""docs/the_loop.py writes what `outrider.decode` writes, with the same probabilities."""

import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from outrider import Context, Drafter, Pen, Sampling, decode
from outrider.targets.tabular import TabularTarget
from outrider.testing.enumerated import EnumeratedChance
from outrider.verifiers.token import Token

LOOP = Path(__file__).parent.parent / "docs" / "the_loop.py"
TARGET, OTHER = TabularTarget(vocab_size=3, seed=1), TabularTarget(vocab_size=3, seed=2)
PROMPT = [0, 1]


class FromTable(Drafter):
    """Draws each token from another table than the target's."""

    def propose(self, context: Context, pen: Pen) -> None:
        tokens = list(context.tokens)
        while pen.open:
            tokens.append(pen.draw(OTHER.logits(tokens)))


def written_here(gamma: int, length: int) -> Any:
    """Returns a play of the file's loop, in which all random decisions are the chance's."""
    names = runpy.run_path(str(LOOP))

    def model(table: TabularTarget) -> Any:
        return lambda ids: torch.stack([table.logits(ids[: i + 1]) for i in range(len(ids))])

    def play(chance: Any) -> list[list[int]]:
        names["verify"].__globals__.update(
            draw=chance.categorical, coin=lambda p: chance.coins(p[None])[0]
        )
        return list(names["decode"](model(TARGET), model(OTHER), PROMPT, gamma, length))

    return play


def written_by_outrider(gamma: int, length: int) -> Any:
    options: Any = {"gamma": gamma, "max_new_tokens": length, "sampling": Sampling(temperature=1)}

    def play(chance: Any) -> list[list[int]]:
        drafter = FromTable()
        rounds = decode(TARGET, drafter, Token(), PROMPT, chance=chance, **options)
        return [list(round.tokens) for round in rounds]

    return play


def law(play: Any) -> dict[tuple[tuple[int, ...], ...], float]:
    """Returns the probability of each sequence of rounds, summed over all random decisions."""
    found: Counter[Any] = Counter()
    for probability, rounds in EnumeratedChance.outcomes(play):
        found[tuple(map(tuple, rounds))] += probability
    return found


@pytest.mark.parametrize(("gamma", "length"), [(1, 3), (2, 3)])
def test_the_loop_of_fifty_lines_has_the_law_of_decode(gamma: int, length: int) -> None:
    here, outriders = law(written_here(gamma, length)), law(written_by_outrider(gamma, length))
    assert here.keys() == outriders.keys() and len(here) >= 27
    assert sum(here.values()) == pytest.approx(1, abs=1e-12)
    for rounds, probability in outriders.items():
        assert here[rounds] == pytest.approx(probability, abs=1e-12)


def test_the_loop_runs_alone(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(LOOP), run_name="__main__")
    assert len(capsys.readouterr().out.split()) == 40
