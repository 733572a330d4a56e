"""Measures drafters on half of the prompts, and the settings that are advised on the other half."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, islice
from typing import final

from outrider.base.errors import OutriderError
from outrider.contract.policy import Fixed
from outrider.contract.target import Target
from outrider.drafters.none import NoDraft
from outrider.extras.advise.costs import InTurn
from outrider.extras.advise.forecast import ByPrompt
from outrider.lab.measuring.compare import measure
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.measuring.texts import cache_folder, written
from outrider.lab.measuring.variants import PLAIN_NAME, Question, Settings, Variant
from outrider.verifiers.token import Token

Found = Mapping[str, ByPrompt]
"""By drafter, its measurements by prompt; plain decoding is among them."""


@final
class Trial:
    """Decodes with a target under some settings; drafters that fail are left out from then on.

    failed: by drafter, its error. on_step: called after each measurement.
    """

    def __init__(self, target: Target, writing: Settings, on_step: Callable[[str], None]) -> None:
        self.target, self.writing, self._on_step = target, writing, on_step
        self.failed: dict[str, str] = {}

    def overlaps(self, variants: Mapping[str, Variant], questions: Sequence[Question]) -> Found:
        """Returns how far the distributions overlap along the target's texts, at all lengths."""
        return self._measured(variants, questions, "overlap", 1)

    def in_turn(
        self, variants: Mapping[str, Variant], questions: Sequence[Question], together: int
    ) -> Found:
        """Returns texts in which the drafts of each drafter have all lengths in turn."""
        turning = {
            name: replace(variant, policy=InTurn()) if has_lengths(variant) else variant
            for name, variant in variants.items()
        }
        return self.decoded(turning, questions, together)

    def decoded(
        self, variants: Mapping[str, Variant], questions: Sequence[Question], together: int
    ) -> Found:
        """Returns decoded texts. together: how many are written at once, some twice if need be."""
        count = -(-len(questions) // together) * together
        with_plain = {PLAIN_NAME: Variant(NoDraft(), Token()), **variants}
        return self._measured(with_plain, [*islice(cycle(questions), count)], "decode", together)

    def at_length(self, questions: Sequence[Question], length: int) -> list[Question]:
        """Returns questions that are cut in their middle, or have others and their answers before.

        length: of the prompt, in tokens.
        """
        own = []
        for number, question in enumerate(questions):
            others = [*questions[number + 1 :], *questions[:number]]
            before = cycle(token for it in others for token in (*it.tokens, *it.text))
            missing = max(0, length - len(question.tokens))
            tokens, half = [*islice(before, missing), *question.tokens], length // 2
            own.append([*tokens[:half], *tokens[len(tokens) - (length - half) :]])
        texts = written(
            self.target,
            own,
            self.writing.sampling,
            self.writing.max_new_tokens,
            batch=1,
            folder=cache_folder(),
        )
        return [
            replace(question, tokens=tokens, text=text)
            for question, tokens, text in zip(questions, own, texts, strict=True)
        ]

    def _measured(
        self,
        variants: Mapping[str, Variant],
        questions: Sequence[Question],
        protocol: str,
        together: int,
    ) -> Found:
        left = {name: variant for name, variant in variants.items() if name not in self.failed}
        found: dict[str, dict[str, list[Measurement]]] = {
            name: {question.prompt: [] for question in questions} for name in left
        }
        numbered = [replace(it, number=number) for number, it in enumerate(questions)]
        writing = replace(self.writing, together=together)
        try:
            for each in measure(self.target, left, numbered, writing, protocol=protocol):
                if each.error is not None:
                    self.failed[each.drafter] = each.error
                found[each.drafter][each.prompt].append(each)
                self._on_step(each.drafter)
        except OutriderError:
            if not self.failed:
                raise
        return {name: [*it.values()] for name, it in found.items() if name not in self.failed}


def has_lengths(variant: Variant) -> bool:
    """Returns whether a shorter draft is the beginning of a longer one."""
    return isinstance(variant.policy, Fixed) and not variant.drafter.trees


def merged(overlaps: Found, decoded: Found) -> Found:
    """Returns the measurements of both protocols together, of drafters that have both."""
    return {
        name: [
            [*one, *other]
            for one, other in zip(overlaps.get(name, [()] * len(prompts)), prompts, strict=True)
        ]
        for name, prompts in decoded.items()
    }
