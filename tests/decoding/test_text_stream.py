"""Stops are exact wherever they fall."""

from typing import Any

import pytest
import tokenizers
from tiny.tokenizer_kinds import KINDS, tokenizer_of
from transformers import PreTrainedTokenizerFast

from outrider import ConfigError
from outrider.decoding.text_stream import TextStream


@pytest.fixture(scope="module")
def bytes_tokenizer() -> Any:
    """A byte-level BPE with a few merges, as GPT-2's and Llama's are."""
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=290,
        special_tokens=["<eos>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    backend.train_from_iterator(["the end. the end.\n\n the end", "stop. stop"] * 5, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<eos>")


def push_all(stream: TextStream, ids: list[int]) -> int:
    """Returns how many ids were taken before the text ended."""
    for count, token in enumerate(ids, start=1):
        if stream.push(token)[1]:
            return count
    return -1


@pytest.mark.parametrize(
    ("text", "stops", "kept"),
    [
        ("the end. the end", ["."], "the end."),
        ("the end. the end", ["nd. t"], "the end. t"),  # across tokens
        ("the end. the end", ["h"], "th"),  # inside a token
        ("the end. the end", ["end", "the"], "the"),  # the one that ends first
        ("the the end", ["e e"], "the the e"),  # none before the newest piece is found again
        ("the end. the end", ["zzz"], "the end. the end"),
        ("the end. the end", "nd", "the end"),  # a single one, not its characters
        ("stop 🎉 stop", ["🎉"], "stop 🎉"),
    ],
)
def test_the_text_ends_with_the_first_stop(
    bytes_tokenizer: Any, text: str, stops: Any, kept: str
) -> None:
    stream = TextStream(bytes_tokenizer, stops)
    taken = push_all(stream, bytes_tokenizer.encode(text))
    assert stream.text == kept
    assert (taken == -1) == (kept == text)


def test_a_target_without_tokenizer_has_no_text_and_no_stop() -> None:
    assert TextStream(None).push(3) == ("", False)
    with pytest.raises(ConfigError, match="the target has no tokenizer"):
        TextStream(None, ["."])


HI_END_YOU = "hi<|turn|> you"


@pytest.mark.parametrize(
    ("stop", "kept", "count"),
    [
        ("<|turn|>", "hi", 3),
        ("hi<|turn|>", "hi", 3),
        ("<|turn|> y", "hi y", 5),
        ("i<|turn|> yo", "hi yo", 6),
        ("hi y", "hi y", 5),  # what is shown
        ("<s>", "hi you", -1),
    ],
)
def test_a_stop_may_hold_special_tokens(stop: str, kept: str, count: int) -> None:
    tokenizer = tokenizer_of("byte_level")
    stream = TextStream(tokenizer, [stop])
    assert push_all(stream, tokenizer.encode(HI_END_YOU)) == count
    assert stream.text == kept


def test_a_stop_is_found_in_characters_that_may_still_change() -> None:
    tokenizer = tokenizer_of("llama")
    ids = tokenizer.convert_tokens_to_ids(["the", "<0x0A>", "<0x0A>", "end"])
    stream = TextStream(tokenizer, ["\n\n"])
    assert push_all(stream, ids) == 3
    assert stream.text == "the\n\n"


def test_a_stop_of_a_space_and_a_word_is_found_after_the_prompt() -> None:
    tokenizer = tokenizer_of("llama")
    the, a = tokenizer.convert_tokens_to_ids(["▁the", "▁a"])
    stream = TextStream(tokenizer, [" the"], [a])
    assert push_all(stream, [the, a]) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tokenizer_has_stops_and_an_end(kind: str) -> None:
    tokenizer = tokenizer_of(kind)
    token = tokenizer.convert_tokens_to_ids("s")
    stream = TextStream(tokenizer, ["s"])
    assert push_all(stream, [token, token]) == 1
    assert stream.text == "s"
    assert stream.finish() == ""


def test_the_end_hands_out_pending_characters() -> None:
    tokenizer = tokenizer_of("byte_level")
    stream = TextStream(tokenizer)
    ids = tokenizer.encode("aï")[:-1]
    pieces = [stream.push(token)[0] for token in ids]
    assert pieces == ["a", ""]
    assert stream.finish() == "\ufffd"
    assert stream.text == tokenizer.decode(ids)
