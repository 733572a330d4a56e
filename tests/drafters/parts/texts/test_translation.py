"""A text of one tokenizer is read in the ids of another, and logits go the other way."""

import random
from typing import Any

import pytest
import torch
from tiny.tokenizer_makers import byte_level, unigram

from outrider import Tokens
from outrider.drafters.parts.texts.translation import OwnText, Translation, whole_characters
from outrider.targets.tabular import TabularTarget

NICHI = "日".encode()


def target_with(tokenizer: Any, size: int | None = None) -> TabularTarget:
    target = TabularTarget(size or len(tokenizer), order=1)
    target.tokenizer = tokenizer
    return target


def translation(own: Any, target: Any) -> Translation:
    return Translation(own, len(own), target_with(target))


@pytest.fixture(scope="module")
def bpe() -> Any:
    """Ids 0 to 8 are bytes, 9 to 14 are " a", "ab", two bytes of three, "ca", <s> and <x>."""
    merges = [(b" ", b"a"), (b"a", b"b"), (NICHI[:1], NICHI[1:2]), (b"c", b"a")]
    return byte_level(b" abc" + NICHI + b"\n.", merges, ["<s>", "<x>"])


@pytest.fixture(scope="module")
def pieces() -> Any:
    """Ids 1 to 8 are pieces, and 9 and 10 are <x> and </s>."""
    return unigram(["b", "▁a", "日", "a", "▁", "▁ab", "c", "."], ["<x>", "</s>"])


def test_tokens_are_shared_by_their_bytes(bpe: Any, pieces: Any) -> None:
    to_pieces = translation(pieces, bpe)
    # " ", "a", "b", "c", ".", " a" and <x>; not "ab", nor the bytes of 日, nor other special ones.
    assert to_pieces.own_ids == {0: 5, 1: 4, 2: 1, 3: 7, 8: 8, 9: 2, 14: 9}
    to_bpe = translation(bpe, pieces)
    assert to_bpe.own_ids == {own: token for token, own in to_pieces.own_ids.items()}
    assert to_pieces.shared == to_bpe.shared == 7


def test_logits_stay_with_their_tokens(bpe: Any, pieces: Any) -> None:
    both = translation(pieces, bpe)
    logits = torch.rand(2, len(pieces))
    full = both.spread(logits)
    assert full.shape == (2, len(bpe))
    for token in range(len(bpe)):
        if token in both.own_ids:
            assert torch.equal(full[:, token], logits[:, both.own_ids[token]])
        else:
            assert (full[:, token] == -torch.inf).all()


def test_of_two_tokens_for_the_same_bytes_one_is_written_and_both_are_read() -> None:
    names = ["A", *(f"<0x{byte:02X}>" for byte in range(256))]
    doubled, single = unigram(names, byte_fallback=True), byte_level(b"AB")
    both = translation(single, doubled)
    assert both.own_ids == {1: 0, 2 + ord("A"): 0, 2 + ord("B"): 1}
    assert both.shared == 2
    full = both.spread(torch.tensor([0.5, 0.7]))
    assert full.isfinite().nonzero().flatten().tolist() == [1, 2 + ord("B")]
    assert translation(doubled, single).own_ids == {0: 1, 1: 2 + ord("B")}


def test_ids_without_a_token_are_not_shared() -> None:
    tokenizer = byte_level(b"ab")
    both = Translation(tokenizer, 1, target_with(tokenizer, size=5))
    assert both.own_ids == {0: 0}
    assert both.spread(torch.tensor([1.0])).tolist() == [1.0, *[-torch.inf] * 4]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ([0, 1, 2], [5, 4, 1]),  # " ", "a" and "b", which the drafter has too
        ([10], [4, 1]),  # "ab" is cut
        ([9, 10, 12], [2, 4, 1, 7, 4]),  # "ab" and "ca" are cut together, behind " a"
        ([0, 10], [5, 4, 1]),  # its own tokens stay as they are: not "▁ab"
        ([11, 6], [3]),  # all bytes of 日
        ([1, 4, 5, 6, 1], [4, 3, 4]),
        ([1, 11, 2], [4, 1]),  # a character that does not end is left out
        ([14, 13, 1], [9, 4]),  # special tokens: one in common, one not
        ([13], None),
        ([1, 11], None),  # a part of a character
        ([], None),
    ],
)
def test_a_text_is_read(bpe: Any, pieces: Any, text: list[int], expected: list[int] | None) -> None:
    assert OwnText(translation(pieces, bpe)).follow(Tokens(text)) == expected


def test_a_part_of_a_character_is_read_where_a_token_spells_that_part(bpe: Any) -> None:
    own = OwnText(translation(byte_level(b"ab" + NICHI), bpe))
    assert own.follow(Tokens([1, 4])) == [0, 2]
    assert own.follow(Tokens([1, 4, 5, 6, 2])) == [0, 2, 3, 4, 1]


def test_the_drafters_own_opening_comes_first(bpe: Any) -> None:
    own = byte_level(b"ab", specials=["<s>"], opening="<s>")
    opened = OwnText(translation(own, bpe))
    assert opened.follow(Tokens([1, 2])) == [2, 0, 1]
    assert opened.follow(Tokens([13, 1, 2])) == [2, 0, 1]  # the target's is the same
    assert opened.follow(Tokens([14])) == [2]


@pytest.mark.parametrize("other_way", [False, True])
def test_ids_depend_on_the_text_alone(bpe: Any, pieces: Any, other_way: bool) -> None:
    target, own = (pieces, bpe) if other_way else (bpe, pieces)
    both, draw = translation(own, target), random.Random(0)
    used, text = OwnText(both), list[int]()
    for _ in range(200):
        text = text[: draw.randrange(len(text) + 1)]
        text += [draw.randrange(len(target)) for _ in range(draw.randrange(6))]
        expected = OwnText(both).follow(Tokens(list(text)))
        assert used.follow(Tokens(list(text))) == expected


def test_a_longer_text_changes_only_unsettled_tokens(bpe: Any, pieces: Any) -> None:
    own = OwnText(translation(pieces, bpe))
    text = [1, 2, 3, 10, 1]
    before = own.follow(Tokens(text))
    after = own.follow(Tokens([*text, 2, 12, 12]))
    assert after[: len(before)] == before


def test_an_interruption_leaves_the_ids_right(
    bpe: Any, pieces: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, text, other = translation(pieces, bpe), [1, 10, 2, 10, 3, 12, 1], [1, 10, 2, 12]
    expected = OwnText(both).follow(Tokens(text))
    cut = OwnText._cut
    for last in range(3):
        own, calls = OwnText(both), iter(range(last))
        own.follow(Tokens(other))

        def interrupted(self: OwnText, *rest: Any, calls: Any = calls) -> list[int]:
            if next(calls, None) is None:
                raise KeyboardInterrupt
            return cut(self, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(OwnText, "_cut", interrupted)
            with pytest.raises(KeyboardInterrupt):
                own.follow(Tokens(text))
        assert own.follow(Tokens(text)) == expected


@pytest.mark.parametrize(
    ("text", "whole"),
    [(b"", 0), (b"ab", 2), (NICHI, 3), (b"a" + NICHI[:1], 1), (b"a" + NICHI[:2], 1), (b"a\xff", 2)],
)
def test_the_part_of_a_character_at_the_end_is_cut_off(text: bytes, whole: int) -> None:
    assert whole_characters(text) == text[:whole]
