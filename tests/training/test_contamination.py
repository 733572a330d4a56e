"""A prompt that was trained on is known again; others are not."""

from pathlib import Path
from typing import Any

from outrider.prompts import Prompt
from outrider.training import contamination
from outrider.training.corpus import Text


def test_prompts_that_were_seen(target: Any, tmp_path: Path) -> None:
    ids = target.encode("the cat sat")
    contamination.write(tmp_path, target, [Text([*ids, 9, 9], len(ids), len(ids))])
    asked = [Prompt("1", "x", ("the cat sat",)), Prompt("2", "x", ("the dog sat",))]
    assert contamination.overlap(tmp_path, target, asked, chat=False) == ["1"]


def test_case_and_spaces_do_not_matter() -> None:
    assert contamination.fingerprint("The  cat\nsat ") == contamination.fingerprint("the cat sat")
    assert contamination.fingerprint("the cat") != contamination.fingerprint("the cats")
