"""A subject: a tiny model with the texts that transformers itself writes with it."""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from outrider.targets.passes.masks import context_window
from tiny.models import Entry, build, prompts

NEW = 24
"""Tokens that a text gets."""
TRIES = 8
Text = TypeVar("Text", list[int], tuple[int, ...])
TIE = 1e-3
"""Two logits this near, relative to their spread, may change places by rounding."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What a model says after one prompt.

    texts: what is right, ended by the end token: the text of `generate`, and that of full passes
        without a cache, where it is another.
    gaps: of each token, how far the two highest logits of the full passes lie apart, relative to
        the spread of all.
    """

    texts: tuple[tuple[int, ...], ...]
    gaps: tuple[float, ...]

    @property
    def text(self) -> list[int]:
        """Returns the text of `generate`."""
        return list(self.texts[0])


@dataclass(frozen=True, slots=True)
class Subject:
    """A model and its prompts, each with the truth about it."""

    entry: Entry
    model: Any
    prompts: list[list[int]]
    truths: list[Truth]

    @property
    def encodes(self) -> bool:
        """Returns whether the prompt is read by an encoder."""
        return bool(self.model.config.is_encoder_decoder)

    @property
    def start(self) -> list[int]:
        """Returns what the decoder's text begins with where an encoder reads the prompt."""
        return [self.model.generation_config.decoder_start_token_id] if self.encodes else []

    def whole(self, number: int) -> list[int]:
        """Returns the ids that a decoder sees in the end: the prompt, or start token, and text."""
        return (self.start or self.prompts[number]) + self.truths[number].text


def subject(entry: Entry, seeds: Iterable[int] = range(TRIES)) -> Subject:
    """Returns a model whose texts vary and have no ties, of those that some seeds give.

    One token becomes the end token, such that one of the shorter prompts has a shorter text.
    """
    best, model = -1, None
    for seed in seeds:
        tried = build(entry, seed)
        text = written(tried, prompts()[0])
        score = len(set(text)) if len(text) == room(tried, prompts()[0]) else 0
        if score > best:
            best, model = score, tried
        if score >= NEW // 3:
            break
    truths = [truth(model, prompt) for prompt in prompts()]
    end = end_token(truths)
    if end is not None:
        model.generation_config.eos_token_id = end
        truths = [
            dataclasses.replace(t, texts=tuple(ended(x, end) for x in t.texts)) for t in truths
        ]
    return Subject(entry, model, prompts(), truths)


def written(model: Any, prompt: Sequence[int], **options: Any) -> list[int]:
    """Returns the text that `generate` writes after a prompt, without the prompt or start token."""
    ids = torch.tensor([list(prompt)])
    settings = {"max_new_tokens": room(model, prompt)} | options
    rows = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **settings)
    text: list[int] = rows[0, 1 if model.config.is_encoder_decoder else len(prompt) :].tolist()
    return text


def room(model: Any, prompt: Sequence[int]) -> int:
    """Returns how many tokens a text gets; with LongRoPE it ends at the original window."""
    window = None if model.config.is_encoder_decoder else context_window(model)
    return NEW if window is None else min(NEW, window - len(prompt))


@torch.no_grad()
def truth(model: Any, prompt: Sequence[int]) -> Truth:
    """Returns what `generate` and what full passes write after a prompt."""
    own = written(model, prompt)
    source = torch.tensor([list(prompt)])
    ids = (
        [model.generation_config.decoder_start_token_id] if model.config.is_encoder_decoder else []
    )
    ids = ids or list(prompt)
    full: list[int] = []
    gaps: list[float] = []
    for _ in range(room(model, prompt)):
        text = torch.tensor([ids + full])
        given = {"input_ids": source, "decoder_input_ids": text}
        if not model.config.is_encoder_decoder:
            given = {"input_ids": text}
        logits = model(**given, use_cache=False).logits[0, -1]
        first, second = logits.topk(2).values.tolist()
        gaps.append((first - second) / max(float(logits.std()), 1e-9))
        full.append(int(logits.argmax()))
    return Truth(tuple(dict.fromkeys((tuple(own), tuple(full)))), tuple(gaps))


def end_token(truths: Sequence[Truth]) -> int | None:
    """Returns a token that ends one of the later texts early, and leaves the first ones whole."""
    whole = {token for text in truths[0].texts for token in text}
    for text in [truth.text for truth in truths[1:]]:
        for position in range(6, len(text) - 4):
            token = text[position]
            if token not in text[:position] and token not in whole:
                return token
    return None


def ended(text: Text, end: int) -> Text:
    """Returns a text up to and with its first end token, without the padding behind it."""
    return text[: text.index(end) + 1] if end in text else text
