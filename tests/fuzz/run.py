"""Runs one example, and checks what it writes against what is promised."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from fuzz.built import BuiltExample
from fuzz.example import Example, Outcome
from fuzz.invariants import check_possible, check_rounds, tokens_of
from fuzz.parts import reads_the_clock
from outrider import Chance, OutriderError, Round, SampledChance
from outrider.testing.enumerated import EnumeratedChance

TOLERANCE = 1e-9
MOST_OUTCOMES = 400
"""The most outcomes to enumerate. If there are more, no text may be too likely so far."""


def run_example(example: Example) -> Outcome:
    """Runs a combination, and checks everything that is promised.

    An `OutriderError` before the first token is a refusal; any other exception is a fault, such as
    the `AssertionError` of a broken promise.
    """
    try:
        built = BuiltExample.of(example)
        drafter = built.drafter()
        for number in range(len(example.prompts)):
            built.rounds(number, drafter)
    except OutriderError as error:
        return Outcome(refused=str(error))
    if example.enumerate:
        return Outcome((_check_distribution(built),))
    return _check_texts(built)


def _check_texts(built: BuiltExample) -> Outcome:
    """Writes the texts of an example, alone and together, and checks each."""
    example = built.example
    exact = built.verifier.lossless and (example.greedy or built.verifier.coupled)
    repeatable = exact or not reads_the_clock(example.policy)
    alone = [list(built.rounds(number)) for number in range(len(example.prompts))]
    kinds = [_check_text(built, number, rounds) for number, rounds in enumerate(alone)]
    texts = [tokens_of(rounds) for rounds in alone]
    checked = [kinds[0]]
    if len(texts) > 1:
        together = [tokens_of(rounds) for rounds in built.together()]
        assert not repeatable or together == texts, f"a batch wrote {together}: alone {texts}"
        checked.append("batch")
    return Outcome(tuple(checked))


def _check_text(built: BuiltExample, number: int, rounds: Sequence[Round]) -> str:
    """Checks one text, and returns its kind."""
    oracle, text, verifier = built.oracle(number), tokens_of(rounds), built.verifier
    check_rounds(rounds, oracle)
    check_possible(text, oracle, verifier)
    if not verifier.lossless:
        return "lossy"
    if built.example.greedy:
        expected = oracle.write(SampledChance.seeded(0))
        reason = f"text {number + 1} is {text}: the target's greedy text is {expected}"
        assert text == expected, reason
        return "greedy"
    if verifier.coupled:
        without = replace(built.example, drafter={"drafter": "none"})
        plain = tokens_of(list(replace(built, example=without).rounds(number)))
        assert text == plain, f"text {number + 1} is {text}: without drafts it is {plain}"
        return "coupled"
    return "sampled"


def _check_distribution(built: BuiltExample) -> str:
    """Compares the distribution of the first text with the target's, and returns the kind."""
    oracle, drafter = built.oracle(0), built.drafter()

    def play(chance: Chance) -> list[int]:
        drafter.forget()
        return tokens_of(list(built.rounds(0, drafter, chance)))

    probs, is_complete = _summed(play)
    exact, is_exact = _summed(oracle.write)
    if not is_exact:
        return "partly enumerated"
    lossless = built.verifier.lossless
    for text in probs.keys() | exact.keys():
        excess = probs[text] - exact[text]
        if lossless and (excess > TOLERANCE or (is_complete and excess < -TOLERANCE)):
            raise AssertionError(
                f"text {list(text)} comes out with probability {probs[text]:.10f}: the target's is"
                f" {exact[text]:.10f}"
            )
    if not lossless:
        return "lossy"
    return "enumerated" if is_complete else "partly enumerated"


def _summed(
    play: Callable[[Chance], list[int]],
) -> tuple[defaultdict[tuple[int, ...], float], bool]:
    """Returns the probability of each text, and whether all outcomes were summed."""
    probs: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for count, (p, text) in enumerate(EnumeratedChance.outcomes(play), start=1):
        probs[tuple(text)] += p
        if count == MOST_OUTCOMES:
            return probs, False
    return probs, True
