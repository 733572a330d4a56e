"""Messages for people."""

import pytest

from outrider.base.errors import described, nearest, shown


def test_a_value_of_many_lines_is_shown_by_its_first() -> None:
    assert shown(Module("Model(\n  (layers): 30\n)")) == "Model(..."
    assert shown("a\nb") == "'a\\nb'"


class Module(str):
    def __repr__(self) -> str:
        return str(self)


def test_nearest_offers_close_names_first() -> None:
    names = ["bigram", "prompt_lookup", "unigram"]
    assert nearest("promt_lookup", names).startswith("did you mean 'prompt_lookup'?")
    assert nearest("zzz", names) == "there are: bigram, prompt_lookup, unigram"
    settings = ["sampling.seed", "sampling.top_k", "speed"]
    assert nearest("seed", settings).startswith("did you mean 'sampling.seed'?")
    assert nearest("zzz", []) == "there are: none"


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (Wordless(), "Wordless"),
        (ExceptionGroup("two", [Wordless()]), "ExceptionGroup: two (1 sub-exception)"),
        (ValueError("a \udcff\nb \ud800"), "ValueError: a \\udcff b \\ud800"),
    ],
)
def test_an_error_is_worded_whatever_its_own_words_do(error: Exception, line: str) -> None:
    assert described(error) == line == described(error).encode().decode()
