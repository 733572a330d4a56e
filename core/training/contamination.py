"""Seen: which prompts a drafter was trained on, as fingerprints beside its weights."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from outrider.contract.target import Target
from outrider.prompts import Prompt
from outrider.training.corpus import Text

FILE = "prompts.sha256"


def fingerprint(words: str) -> str:
    """Returns what stands for a prompt, whatever its case and spaces."""
    return hashlib.sha256(" ".join(words.lower().split()).encode()).hexdigest()[:16]


def write(folder: Path, target: Target, texts: Sequence[Text]) -> None:
    """Writes a fingerprint a line, of what each text asks; texts without a question have none."""
    if target.tokenizer is None:
        return
    decode = target.tokenizer.decode
    asked = (decode(text.ids[: text.answer], skip_special_tokens=True) for text in texts)
    lines = sorted({fingerprint(str(words)) for words in asked})
    (folder / FILE).write_text("\n".join(lines) + "\n")


def overlap(folder: Path, target: Target, prompts: Iterable[Prompt], *, chat: bool) -> list[str]:
    """Returns the ids of prompts that a drafter with its weights in `folder` has seen.

    chat: whether the prompts are asked through the chat template, as they were in training.
    """
    known = set((folder / FILE).read_text().split())
    assert target.tokenizer is not None, "fingerprints are of words"
    found = []
    for prompt in prompts:
        ids = target.encode_turns(prompt.turns[:1], chat=chat)
        if fingerprint(str(target.tokenizer.decode(ids, skip_special_tokens=True))) in known:
            found.append(prompt.id)
    return found
