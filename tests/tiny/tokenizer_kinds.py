"""Tokenizers of the kinds that models have, each tiny, whose tokens make texts of any bytes."""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

SPECIALS = ("<s>", "</s>", "<|turn|>")
"""The special tokens of every kind; "</s>" ends a text."""

WORDS = ("the", "end", "a", "don", "na", "ïve")
MARKS = (".", ",", "?", "!", "'", "s", "n", "t", "re", " ")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


@cache
def tokenizer_of(kind: str) -> Any:
    """Returns the tokenizer of a kind.

    kind: a key of `TOKENIZERS`.
    """
    return TOKENIZERS[kind]()


def _byte_level() -> Any:
    """GPT-2, Llama 3, Qwen: each token is a row of bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [f"Ġ{word}" for word in ("the", "end", "a")]
    parts = sorted({word[:end] for word in words for end in range(2, len(word) + 1)}, key=len)
    merges = [(part[:-1], part[-1]) for part in parts]
    model = models.BPE({token: i for i, token in enumerate([*letters, *parts])}, merges)
    backend = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return _wrapped(backend, decoders.ByteLevel())


def _byte_fallback(*, strips: bool) -> Any:
    """Gemma, and with `strips` Llama 2 and Mistral, which drop the space before the first word."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    pieces = ["<unk>", *BYTES, *_spaced(WORDS), *WORDS, *MARKS[:-1], "▁"]
    scores = [(piece, -float(i)) for i, piece in enumerate(dict.fromkeys(pieces))]
    backend = Tokenizer(models.Unigram(scores, unk_id=0, byte_fallback=True))
    scheme = "first" if strips else "never"
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    strip = [decoders.Strip(" ", 1, 0)] if strips else []
    return _wrapped(backend, decoders.Sequence([*steps, *strip]))


def _metaspace() -> Any:
    """T5 and XLNet: "▁" begins a word, and the first word has no space."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    pieces = ["<unk>", *_spaced(WORDS), *WORDS, *MARKS[:-1], "▁"]
    scores = [(piece, -float(i)) for i, piece in enumerate(dict.fromkeys(pieces))]
    backend = Tokenizer(models.Unigram(scores, unk_id=0))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    return _wrapped(backend, decoders.Metaspace())


def _word_piece(*, cleans_up: bool) -> Any:
    """BERT: "##" goes on in a word, and with `cleans_up` marks follow without a space."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocabulary = [*WORDS, *MARKS[:-1], *(f"##{word}" for word in WORDS), "[UNK]"]
    model = models.WordPiece({token: i for i, token in enumerate(vocabulary)}, unk_token="[UNK]")
    backend = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    decoder = decoders.WordPiece(cleanup=cleans_up)
    return _wrapped(backend, decoder, clean_up_tokenization_spaces=cleans_up)


def _word_ends() -> Any:
    """GPT-1 and CLIP: "</w>" ends a word, and a space follows where another comes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocabulary = [*WORDS, *MARKS[:-1], *(f"{word}</w>" for word in (*WORDS, *MARKS[:-1]))]
    model = models.BPE(
        {token: i for i, token in enumerate(dict.fromkeys(vocabulary))},
        [],
        end_of_word_suffix="</w>",
    )
    backend = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return _wrapped(backend, decoders.BPEDecoder(suffix="</w>"))


def _no_decoder() -> Any:
    """Whole words, with a space between any two tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = [*WORDS, *MARKS[:-1], "[UNK]"]
    words = {token: i for i, token in enumerate(vocabulary)}
    backend = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return _wrapped(backend, None)


def _python_bytes() -> Any:
    """ByT5: pure Python, a token for each byte; bytes that are no text are left out."""
    from transformers import ByT5Tokenizer

    return ByT5Tokenizer()


def _python_words() -> Any:
    """XLM and FlauBERT: pure Python, "</w>" ends a word, and the text has no space at its ends."""
    from transformers import PreTrainedTokenizer

    base: Any = PreTrainedTokenizer

    class Words(base):  # type: ignore[misc]
        names = (*WORDS, *MARKS[:-1], "\n", *(f"{word}</w>" for word in WORDS), "<unk>")

        @property
        def vocab_size(self) -> int:
            return len(self.names)

        def get_vocab(self) -> dict[str, int]:
            return {name: i for i, name in enumerate(self.names)} | self.added_tokens_encoder

        def _tokenize(self, text: str, **_: Any) -> list[str]:
            return [word if word in self.names else f"{word}</w>" for word in text.split()]

        def _convert_token_to_id(self, token: str) -> int:
            return self.names.index(token if token in self.names else "<unk>")

        def _convert_id_to_token(self, index: int) -> str:
            return self.names[index]

        def convert_tokens_to_string(self, tokens: list[str]) -> str:
            return "".join(tokens).replace("</w>", " ").strip()

    return Words(
        bos_token=SPECIALS[0],
        eos_token=SPECIALS[1],
        unk_token="<unk>",
        additional_special_tokens=[SPECIALS[2]],
    )


def _wrapped(backend: Any, decoder: Any, **options: Any) -> Any:
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    if decoder is not None:
        backend.decoder = decoder
    backend.add_special_tokens([AddedToken(name, special=True) for name in SPECIALS])
    wrap: Any = PreTrainedTokenizerFast
    return wrap(tokenizer_object=backend, eos_token=SPECIALS[1], **options)


def _spaced(words: Sequence[str]) -> list[str]:
    return [f"▁{word}" for word in words]


TOKENIZERS: Mapping[str, Callable[[], Any]] = {
    "byte_level": _byte_level, "llama": lambda: _byte_fallback(strips=True),
    "gemma": lambda: _byte_fallback(strips=False), "metaspace": _metaspace,
    "word_piece": lambda: _word_piece(cleans_up=False),
    "cleaned_up": lambda: _word_piece(cleans_up=True), "word_ends": _word_ends,
    "no_decoder": _no_decoder, "python_bytes": _python_bytes, "python_words": _python_words,
}  # fmt: skip
"""By name, what makes the tokenizer of each kind."""


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
