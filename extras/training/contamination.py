"""Which prompts a drafter was trained on, as fingerprints beside its weights."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from outrider.contract.target import Target
from outrider.extras.training.generated_texts import Text

FILE = "prompts.sha256"


def fingerprint(words: str) -> str:
    """Returns a fingerprint of a prompt, which ignores case and spacing."""
    return hashlib.sha256(" ".join(words.lower().split()).encode()).hexdigest()[:16]


def write_fingerprints(folder: Path, target: Target, texts: Sequence[Text]) -> None:
    """Writes the fingerprints of the texts' prompts, one per line.

    A prompt is everything before the answer, chat template included, without special tokens. So the
    prompts of a data set have to be rendered and decoded in the same way to be compared.
    """
    if target.tokenizer is None:
        return
    decode = target.tokenizer.decode
    prompts = (decode(text.ids[: text.answer], skip_special_tokens=True) for text in texts)
    lines = sorted({fingerprint(str(prompt)) for prompt in prompts})
    (folder / FILE).write_text("\n".join(lines) + "\n")
