"""A round knows its text."""

from dataclasses import replace
from typing import Any


def test_the_text_of_a_round_is_that_of_its_pieces(outcome: Any) -> None:
    assert replace(outcome(3, 1), pieces=("Name ", "three")).text == "Name three"
