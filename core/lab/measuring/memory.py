"""What a run that goes on has to know: what it learned from the questions that are done."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace

from outrider.base.calling import calling
from outrider.contract.target import Target
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.measuring.reference import reference
from outrider.lab.measuring.trial import decoded, recording_failure_of
from outrider.lab.measuring.variants import Question, Settings, Variant

Texts = Mapping[tuple[str, str, int], Sequence[int]]
"""By variant, prompt and turn, the text that was decoded."""


def texts_of(done: Sequence[Measurement]) -> Texts:
    """Returns the texts that were decoded in some measurements."""
    return {
        (each.drafter, each.prompt, each.turn): [t for step in text.steps for t in step.tokens]
        for each in done
        if (text := each.decoding) is not None
    }


def remember(target: Target, variant: Variant, question: Question, text: Sequence[int]) -> None:
    """Hands a text to a drafter that remembers texts; the target reads it once for its features."""
    known = reference(target, question.tokens, text, variant.drafter.needs)
    with calling("drafter", variant.drafter):
        variant.drafter.remember(known.before(len(text)))


def learn_again(
    target: Target,
    by_repeat: Sequence[Mapping[str, Variant]],
    questions: Sequence[Question],
    settings: Settings,
    texts: Texts,
) -> None:
    """Has variants learn from questions that were decoded together what they had learned from them.

    A memory of texts is made of those on disk. What was learned from rounds is in no text: such a
    variant decodes the questions once more.
    """
    for name, variant in by_repeat[0].items():
        with recording_failure_of(name, questions[0]):
            drafter, policy = variant.drafter, copy.deepcopy(variant.policy)
            if policy.learns or (drafter.remembers and drafter.observes):
                decoded(target, variant, questions, settings)
                for repeat in by_repeat[1:]:
                    own = replace(repeat[name], policy=copy.deepcopy(policy))
                    decoded(target, own, questions, settings)
            elif drafter.remembers:
                for own in (repeat[name] for repeat in by_repeat):
                    with calling("drafter", own.drafter):
                        own.drafter.bind(target)  # as decoding does, in case it reads a file
                    for question in questions:
                        text = texts[name, question.prompt, question.turn]
                        remember(target, own, question, text)
