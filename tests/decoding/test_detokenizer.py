"""The text is one `decode` of all its tokens, for every kind of tokenizer."""

import random
from typing import Any

import pytest
from tiny.tokenizer_kinds import BYTES, KINDS, random_ids, tokenizer_of
from tiny.tokenizer_makers import LETTERS

from outrider import TargetError, generate
from outrider.decoding.detokenizer import Detokenizer, text_of
from outrider.targets.tabular import TabularTarget

TEXTS = 1000
"""How many random texts of each kind are decoded."""


def byte_ids(kind: str, data: bytes) -> list[int]:
    """The ids of some bytes, in a tokenizer with a token for each byte."""
    tokenizer = tokenizer_of(kind)
    if kind in ("llama", "gemma"):
        return list(tokenizer.convert_tokens_to_ids([BYTES[byte] for byte in data]))
    if kind == "bytes":
        return list(tokenizer.convert_tokens_to_ids([chr(byte) for byte in data]))
    return list(tokenizer.convert_tokens_to_ids([LETTERS[byte] for byte in data]))


def written(tokenizer: Any, ids: list[int], before: list[int] | None = None) -> str:
    """The text of a stream, piece by piece."""
    stream = Detokenizer(tokenizer, before or [])
    return "".join([stream.push(token) for token in ids]) + stream.pending


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_add_up_to_one_decode_of_all_tokens(kind: str) -> None:
    tokenizer, draw = tokenizer_of(kind), random.Random(kind)
    for _ in range(TEXTS):
        ids = random_ids(kind, draw)
        assert written(tokenizer, ids) == tokenizer.decode(ids, skip_special_tokens=True), ids


@pytest.mark.parametrize("kind", ["byte_level", "llama", "gemma", "bytes"])
def test_any_bytes_are_a_text(kind: str) -> None:
    tokenizer, draw = tokenizer_of(kind), random.Random(kind)
    for _ in range(TEXTS):
        data = draw.choice(["naïve 日本語 🎉".encode(), draw.randbytes(9), bytes([0xE6, 0x97])])
        cut = draw.randint(0, len(data))
        ids = byte_ids(kind, data[cut:] + data[:cut])
        assert written(tokenizer, ids) == tokenizer.decode(ids, skip_special_tokens=True), data


@pytest.mark.parametrize("kind", ["llama", "gemma", "metaspace", "byte_level"])
def test_pieces_add_up_to_the_rest_of_a_decode_with_the_prompt(kind: str) -> None:
    tokenizer, draw = tokenizer_of(kind), random.Random(kind)
    word = tokenizer.convert_tokens_to_ids("s")
    for _ in range(TEXTS // 5):
        ids, prompt = random_ids(kind, draw), [word, word]
        whole = tokenizer.decode([*prompt, *ids], skip_special_tokens=True)
        before = tokenizer.decode(prompt, skip_special_tokens=True)
        assert before + written(tokenizer, ids, prompt) == whole, ids


def test_an_apostrophe_may_draw_together_the_words_on_both_sides() -> None:
    tokenizer = tokenizer_of("cleaned_up")
    ids = tokenizer.convert_tokens_to_ids(["the", "n", "'", "t"])
    assert written(tokenizer, ids) == tokenizer.decode(ids) == "then't"


def test_the_space_after_a_prompt_is_kept() -> None:
    tokenizer = tokenizer_of("llama")
    the, a, end = tokenizer.convert_tokens_to_ids(["▁the", "▁a", "</s>"])
    assert written(tokenizer, [the, a]) == "the a"
    assert written(tokenizer, [the, a], [the]) == " the a"
    assert written(tokenizer, [the, a], [the, end]) == " the a"
    assert written(tokenizer, [the, a], [end]) == "the a"  # nothing before it is text


def test_a_space_between_tokens_is_no_part_of_the_text() -> None:
    tokenizer = tokenizer_of("word_level")
    the = tokenizer.convert_tokens_to_ids("the")
    assert written(tokenizer, [the, the], [the]) == "the the"


def test_bytes_of_a_prompt_are_not_those_of_the_text() -> None:
    tokenizer = tokenizer_of("llama")
    good, bad = tokenizer.convert_tokens_to_ids(["<0x0A>", "<0x99>"])
    assert written(tokenizer, [bad], [good]) == "\ufffd"


@pytest.mark.parametrize("kind", ["llama", "gemma"])
def test_bytes_wait_for_the_end_of_their_row(kind: str) -> None:
    tokenizer = tokenizer_of(kind)
    zero, bad, end = tokenizer.convert_tokens_to_ids(["<0x30>", "<0x99>", "end"])
    stream = Detokenizer(tokenizer)
    assert [stream.push(token) for token in (zero, bad)] == ["", ""]
    assert stream.pending == "\ufffd\ufffd"  # one bad byte makes the whole row bad
    assert stream.push(end) == "\ufffd\ufffdend"
    assert stream.pending == ""


def test_a_character_comes_with_its_last_byte() -> None:
    stream = Detokenizer(tokenizer_of("byte_level"))
    pieces = [stream.push(token) for token in byte_ids("byte_level", "aï".encode())]
    assert pieces == ["a", "", "ï"]


def test_an_id_of_no_token_adds_nothing() -> None:
    for kind in KINDS:
        tokenizer = tokenizer_of(kind)
        token = tokenizer.convert_tokens_to_ids("s")
        ids = [token, len(tokenizer) + 700, token]
        assert written(tokenizer, ids) == tokenizer.decode([token, token]), kind


def decoding(result: Any, longest: int = 0) -> Any:
    """Returns a tokenizer of three tokens that can decode only texts up to a length.

    result: what it gives for others, or raises.
    """

    class Mine:
        def __len__(self) -> int:
            return 3

        def convert_ids_to_tokens(self, token: int) -> str:
            return "abc"[token]

        def decode(self, ids: list[int], skip_special_tokens: bool) -> Any:
            if len(ids) <= longest and max(ids) < 3:
                return "".join("abc"[token] for token in ids)
            if isinstance(result, BaseException):
                raise result
            return result

    return Mine()


PANIC = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})("out of bounds")
"""What a tokenizer of Rust raises, as a decoder that strips the end of an empty text does."""


@pytest.mark.parametrize("longest", [0, 2])
@pytest.mark.parametrize("stops", [(), ("z",)])
@pytest.mark.parametrize("result", [None, b"abc", KeyError("a"), PANIC])
def test_a_tokenizer_that_can_not_decode_its_tokens_is_one_line(
    result: Any, stops: tuple[str, ...], longest: int
) -> None:
    target = TabularTarget(3)
    target.tokenizer = decoding(result, longest)
    with pytest.raises(TargetError, match=r"^tokenizer Mine (raised|returned) .*") as caught:
        generate(target, [0, 1], "none", stop=stops, max_new_tokens=4)
    assert "\n" not in str(caught.value)


def test_ids_beyond_a_tokenizer_that_refuses_them_have_no_characters() -> None:
    tokenizer = decoding(IndexError(), longest=9)
    assert written(tokenizer, [0, 5, 1, 7, 2]) == "abc"
    assert text_of(tokenizer, [9, 9], skip_special_tokens=True) == ""


def test_a_long_text_takes_time_in_proportion_to_its_length() -> None:
    read: list[int] = []

    class Counting:
        clean_up_tokenization_spaces = False

        def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
            read.append(len(ids))
            return "".join(map(chr, ids))

    written(Counting(), [97] * 500)
    half = sum(read)
    read.clear()
    written(Counting(), [97] * 1000)
    assert sum(read) < 2.1 * half
