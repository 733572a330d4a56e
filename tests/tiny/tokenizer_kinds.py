"""Tokenizers of the kinds that models have, each tiny, whose tokens make texts of any bytes."""

import random
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import ByT5Tokenizer, PreTrainedTokenizer, PreTrainedTokenizerFast

SPECIALS = ("<s>", "</s>", "<|turn|>")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
PIECES = ("the", "end", "a", "don", "na", "ïve", *(".,?!'"), "s", "n", "t", "re")
SPACED = (" the", " end", " a")


@cache
def tokenizer_of(kind: str) -> Any:
    """Returns the tokenizer of a kind, a key of `KINDS`."""
    return KINDS[kind]()


def _wrapped(backend: Any, *, cleans_up: bool = False) -> Any:
    """Returns a tokenizer of transformers. cleans_up: whether it leaves out spaces before marks."""
    backend.add_special_tokens([AddedToken(name, special=True) for name in SPECIALS])
    return PreTrainedTokenizerFast(tokenizer_object=backend, clean_up_tokenization_spaces=cleans_up)


def _byte_level() -> Any:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    words = [split.pre_tokenize_str(piece)[0][0] for piece in SPACED]
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys([*letters, *words]))}
    backend = Tokenizer(models.BPE(vocabulary, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return backend


def _unigram(*, bytes_too: bool, strips: bool) -> Any:
    spaced = [f"▁{piece}" for piece in PIECES]
    names = ["<unk>", *(BYTES if bytes_too else ()), *spaced, *PIECES, "▁"]
    scores = [(name, -float(i)) for i, name in enumerate(dict.fromkeys(names))]
    backend = Tokenizer(models.Unigram(scores, unk_id=0, byte_fallback=bytes_too))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first" if strips else "never")
    if not bytes_too:
        backend.decoder = decoders.Metaspace()
        return backend
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    strip = [decoders.Strip(" ", 1, 0)] if strips else []
    backend.decoder = decoders.Sequence([*steps, *strip])
    return backend


def _word_piece(*, cleans_up: bool) -> Any:
    names = [*PIECES, *(f"##{piece}" for piece in PIECES), "[UNK]"]
    backend = Tokenizer(
        models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]")
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(cleanup=cleans_up)
    return backend


def _word_ends() -> Any:
    names = dict.fromkeys([*PIECES, *(f"{piece}</w>" for piece in PIECES)])
    vocabulary = {name: i for i, name in enumerate(names)}
    backend = Tokenizer(models.BPE(vocabulary, [], end_of_word_suffix="</w>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.decoder = decoders.BPEDecoder(suffix="</w>")
    return backend


def _word_level() -> Any:
    names = {name: i for i, name in enumerate([*PIECES, "[UNK]"])}
    backend = Tokenizer(models.WordLevel(names, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return backend


def _pure_python() -> Any:
    pieces = (*PIECES, "\n")
    names = list(dict.fromkeys([*(f"{piece}</w>" for piece in pieces), *pieces, "<unk>"]))

    class Words(PreTrainedTokenizer):
        @property
        def vocab_size(self) -> int:
            return len(names)

        def get_vocab(self) -> dict[str, int]:
            return {name: i for i, name in enumerate(names)} | dict(self.added_tokens_encoder)

        def _tokenize(self, text: str, **_: Any) -> list[str]:
            return [f"{word}</w>" for word in text.split()]

        def _convert_token_to_id(self, token: str) -> int:
            return names.index(token if token in names else "<unk>")

        def _convert_id_to_token(self, index: int) -> str:
            return names[index]

        def convert_tokens_to_string(self, tokens: list[str]) -> str:
            return "".join(tokens).replace("</w>", " ").strip()

    return Words(
        bos_token=SPECIALS[0],
        eos_token=SPECIALS[1],
        unk_token="<unk>",
        additional_special_tokens=[SPECIALS[2]],
    )


KINDS: Mapping[str, Callable[[], Any]] = {
    "byte_level": lambda: _wrapped(_byte_level()),
    "llama": lambda: _wrapped(_unigram(bytes_too=True, strips=True)),
    "gemma": lambda: _wrapped(_unigram(bytes_too=True, strips=False)),
    "metaspace": lambda: _wrapped(_unigram(bytes_too=False, strips=True)),
    "word_piece": lambda: _wrapped(_word_piece(cleans_up=False)),
    "cleaned_up": lambda: _wrapped(_word_piece(cleans_up=True), cleans_up=True),
    "word_ends": lambda: _wrapped(_word_ends()),
    "word_level": lambda: _wrapped(_word_level()),
    "python": _pure_python,
    "bytes": ByT5Tokenizer,
}
"""By name, what makes the tokenizer of each kind; ByT5's has no text of wrong bytes."""


def random_ids(kind: str, draw: random.Random) -> list[int]:
    """Returns a text of words, marks, bytes and special tokens, in stretches of one kind."""
    tokenizer = tokenizer_of(kind)
    stretches = [range(len(tokenizer))]
    if kind in ("llama", "gemma"):
        stretches.append(tokenizer.convert_tokens_to_ids(list(BYTES[0xC0:] + BYTES[0x28:0x90])))
    ids: list[int] = []
    for _ in range(draw.randint(0, 4)):
        ids += draw.choices(draw.choice(stretches), k=draw.randint(1, 5))
    return ids
