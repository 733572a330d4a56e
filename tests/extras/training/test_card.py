"""A prompt that was trained on is recognised by its fingerprint; others are not."""

from pathlib import Path
from typing import Any

from outrider.extras.training.card import FILE, fingerprint, write_fingerprints
from outrider.extras.training.generated_texts import Text


def test_prompts_that_were_trained_on(target: Any, tmp_path: Path) -> None:
    ids = target.encode("the cat sat")
    write_fingerprints(tmp_path, target, [Text([*ids, 9, 9], len(ids), len(ids))])
    known = (tmp_path / FILE).read_text().split()
    assert known == [fingerprint("the cat sat")] != [fingerprint("the dog sat")]


def test_case_and_spaces_do_not_matter() -> None:
    assert fingerprint("The  cat\nsat ") == fingerprint("the cat sat")
    assert fingerprint("the cat") != fingerprint("the cats")
