"""Random tokenizers of the kinds that models have, and random ids and bytes as their texts."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from hypothesis import strategies as st

from outrider.decoding.text_stream import TextStream

SPECIALS = ("<s>", "</s>", "<|turn|>")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
PIECES = ("the", "end", "a", "ïve", "don", "n", "'", ".", ",", "t", "日", "é", "--", "?", "é")


@cache
def tokenizer_of(kind: str, pieces: tuple[str, ...], *, cleans_up: bool) -> Any:
    """Returns a tokenizer of transformers.

    kind: a key of `KINDS`. pieces: the tokens that are no bytes, special tokens or marks.
    cleans_up: whether it leaves out spaces before marks.
    """
    if kind == "python":
        return _pure_python(pieces)
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    backend = KINDS[kind](list(dict.fromkeys(pieces)))
    backend.add_special_tokens([AddedToken(name, special=True) for name in SPECIALS])
    wrap: Any = PreTrainedTokenizerFast
    return wrap(tokenizer_object=backend, clean_up_tokenization_spaces=cleans_up)


def _byte_level(pieces: list[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    words = [split.pre_tokenize_str(piece)[0][0] for piece in pieces]
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys([*letters, *words]))}
    backend = Tokenizer(models.BPE(vocabulary, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return backend


def _unigram(pieces: list[str], *, bytes_too: bool, strips: bool) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    spaced = [f"▁{piece}" for piece in pieces]
    names = ["<unk>", *(BYTES if bytes_too else ()), *spaced, *pieces, "▁"]
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


def _word_piece(pieces: list[str], *, cleans_up: bool) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    names = [*pieces, *(f"##{piece}" for piece in pieces), "[UNK]"]
    backend = Tokenizer(
        models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]")
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(cleanup=cleans_up)
    return backend


def _word_ends(pieces: list[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    names = dict.fromkeys([*pieces, *(f"{piece}</w>" for piece in pieces)])
    vocabulary = {name: i for i, name in enumerate(names)}
    backend = Tokenizer(models.BPE(vocabulary, [], end_of_word_suffix="</w>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.decoder = decoders.BPEDecoder(suffix="</w>")
    return backend


def _word_level(pieces: list[str]) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    names = {name: i for i, name in enumerate([*pieces, "[UNK]"])}
    backend = Tokenizer(models.WordLevel(names, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return backend


def _pure_python(pieces: tuple[str, ...]) -> Any:
    from transformers import PreTrainedTokenizer

    base: Any = PreTrainedTokenizer
    names = list(dict.fromkeys([*(f"{piece}</w>" for piece in pieces), *pieces, "<unk>"]))

    class Words(base):  # type: ignore[misc]
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


KINDS: Mapping[str, Callable[[list[str]], Any]] = {
    "byte_level": _byte_level,
    "llama": lambda pieces: _unigram(pieces, bytes_too=True, strips=True),
    "gemma": lambda pieces: _unigram(pieces, bytes_too=True, strips=False),
    "metaspace": lambda pieces: _unigram(pieces, bytes_too=False, strips=True),
    "word_piece": partial(_word_piece, cleans_up=False),
    "cleaned_up": partial(_word_piece, cleans_up=True),
    "word_ends": _word_ends,
    "word_level": _word_level,
    "python": lambda pieces: _pure_python(tuple(pieces)),
}
"""By name, what makes the tokenizer of each kind, or what is behind it."""


def run_tokenizer(
    tokenizer: str,
    pieces: Sequence[str],
    tokens: Sequence[float],
    stops: Sequence[str] = (),
    cleans_up: bool = False,
) -> None:
    """Writes a text token by token, and compares it with one `decode` of all tokens.

    tokens: each from 0 to 1, as its place among the ids.
    """
    made = tokenizer_of(tokenizer, tuple(pieces), cleans_up=cleans_up)
    ids = [int(place * (len(made) - 1)) for place in tokens]
    stream, written = TextStream(made, stops), list[int]()
    is_stopped = False
    while len(written) < len(ids) and not is_stopped:
        written.append(ids[len(written)])
        _, is_stopped = stream.push(written[-1])
    stream.finish()
    whole = made.decode(written, skip_special_tokens=True)
    shown = made.decode(written, skip_special_tokens=False)
    if not is_stopped:
        assert stream.text == whole, f"the text is {stream.text!r}: decode gives {whole!r}"
        found = [stop for stop in stops if stop in whole]
        assert not found, f"the text goes on after {found}"
        return
    assert whole.startswith(stream.text), f"the text is {stream.text!r} of {whole!r}"
    assert any(stop in shown or stop in whole for stop in stops), "the text ends without a stop"


def tokenizers() -> st.SearchStrategy[dict[str, Any]]:
    """Returns the strategy for what `run_tokenizer` takes."""
    stops = st.sampled_from(("the", " a", ".", "</s>", "<|turn|>", "end", "é", "\ufffd", " "))
    return st.fixed_dictionaries(
        {
            "tokenizer": st.sampled_from(tuple(KINDS)),
            "pieces": st.lists(st.sampled_from(PIECES), min_size=1, max_size=6, unique=True),
            "tokens": st.lists(st.floats(0, 1, allow_subnormal=False), max_size=24),
            "stops": st.lists(stops, max_size=2, unique=True) | st.just([]),
            "cleans_up": st.booleans(),
        }
    )
