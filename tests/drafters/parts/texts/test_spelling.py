"""Tokens of every kind of tokenizer are taken back to bytes, and bytes to tokens."""

from typing import Any

import pytest
from tiny.tokenizer_makers import byte_level, unigram, wrapped
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from outrider import ConfigError
from outrider.drafters.parts.texts.spelling import Spelling

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def spelling(tokenizer: Any) -> Spelling:
    return Spelling(tokenizer, len(tokenizer))


def words(decoder: Any, names: list[str]) -> Any:
    backend = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if decoder is not None:
        backend.decoder = decoder
    return wrapped(backend)


@pytest.fixture(scope="module")
def latin() -> Spelling:
    merges = [(b" ", b"a"), (b"a", b"b"), (b"\xe6", b"\x97"), (b"a", b"c")]
    return spelling(byte_level(b" abc\xe6\x97\xa5\n", merges, ["<s>"], "<s>"))


def test_byte_level_tokens_may_be_parts_of_characters(latin: Spelling) -> None:
    tokens = (b" ", b"a", b"b", b"c", b"\xe6", b"\x97", b"\xa5", b"\n", b" a", b"ab", b"\xe6\x97")
    assert latin.bytes_of == (*tokens, b"ac", None)
    assert latin.join(latin.encode("ab 日\nc")) == "ab 日\nc".encode()
    assert latin.join([10]) == b"\xe6\x97"


def test_special_tokens_have_a_name_and_no_bytes(latin: Spelling) -> None:
    assert latin.names == {12: "<s>"}
    assert latin.opening == (12,)
    assert latin.join([12, 1]) == b"a"
    assert 12 not in latin.encode("ab")


def test_marks_of_spaces_and_bytes_are_read() -> None:
    pieces = ["▁a", "▁", "a", "<b>", *BYTES]
    tokenizer = unigram(pieces, ["</s>"], byte_fallback=True)
    spelled = spelling(tokenizer)
    assert spelled.bytes_of[:5] == (None, b" a", b" ", b"a", b"<b>")
    assert spelled.bytes_of[5:261] == tuple(bytes([byte]) for byte in range(256))
    assert spelled.names == {0: "<unk>", 261: "</s>"}
    assert spelled.ids[b"a"] == 3  # not <0x61>, which stands for the same
    assert spelled.opening == ()
    assert spelled.join(spelled.encode("a日")) == " a日".encode()


def test_a_model_may_have_fewer_ids_than_its_tokenizer() -> None:
    spelled = Spelling(unigram(["a", "b"], ["</s>"]), 2)
    assert spelled.bytes_of == (None, b"a")
    assert set(spelled.ids) == {b"a"}
    assert spelled.encode("ab") == [0, 1]  # "▁", which is unknown, and "a"
    assert spelled.continued(b"", b"ab") is None
    larger = Spelling(unigram(["a"]), 9)
    assert larger.bytes_of == (None, b"a", *[None] * 7)


@pytest.mark.parametrize(
    ("decoder", "names", "expected"),
    [
        (None, ["a", "##b"], (b" a", b" ##b")),
        (decoders.WordPiece(), ["a", "##b"], (b" a", b"b")),
        (decoders.BPEDecoder(suffix="</w>"), ["a", "b</w>"], (b"a", b"b ")),
        (decoders.Metaspace(), ["▁a", "b"], (b" a", b"b")),
        (decoders.Sequence([decoders.Metaspace(), decoders.Strip()]), ["a", "▁a"], (b"a", b" a")),
        (decoders.ByteLevel(), ["a", "日"], (b"a", "日".encode())),
    ],
)
def test_every_common_decoder_is_read(decoder: Any, names: list[str], expected: Any) -> None:
    assert spelling(words(decoder, names)).bytes_of == expected


@pytest.mark.parametrize("decoder", [decoders.CTC(), decoders.Replace(Regex("a"), "b")])
def test_a_decoder_that_does_not_read_single_tokens_is_refused(decoder: Any) -> None:
    with pytest.raises(ConfigError, match=r"its decoder has a step (CTC|Replace), which"):
        spelling(words(decoder, ["a"]))


@pytest.mark.parametrize(
    ("before", "text", "expected"),
    [
        (b"", b"ab", [b"ab"]),
        (b"a", b"ca", [b"c", b"a"]),  # not "ac", which would begin before the text
        (b"b", b"ab", [b"ab"]),
        (b"c", b" ab", [b" a", b"b"]),
        (b"c", b"", []),
        (b"\xa5a", b"b", [b"b"]),  # what is before begins within a character
        (b"\xe6\x97", b"\xa5a", [b"\xa5", b"a"]),
        (b"\xe6", b"\x97", None),  # no whole character
        (b"c", b"x", None),  # not in the vocabulary
    ],
)
def test_a_text_is_cut_behind_another(
    latin: Spelling, before: bytes, text: bytes, expected: list[bytes] | None
) -> None:
    ids = latin.continued(before, text)
    assert (ids and [latin.bytes_of[token] for token in ids]) == (expected or ids)
    assert (ids is None) == (expected is None)


def test_a_mark_that_a_tokenizer_adds_is_no_part_of_a_text() -> None:
    spelled = spelling(unigram(["▁a", "▁", "a", "b", "\n"]))
    assert spelled.continued(b"", b" a") == [1]
    assert spelled.continued(b"b", b"a") == [3]
    assert spelled.continued(b"", b"b") == [4]
    lowered = unigram(["▁a", "a"])
    lowered.backend_tokenizer.normalizer = normalizers.Lowercase()
    assert spelling(lowered).continued(b"", b" A") is None
