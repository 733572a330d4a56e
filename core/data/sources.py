"""Data: reads the prompts to measure on, from the demo set or a file."""

from pathlib import Path
from typing import Annotated

from outrider.base.bounds import ExistingFile, checked
from outrider.data.prompts import Prompt, read_jsonl, spaced

DEMO = Path(__file__).parent / "demo.jsonl"


def demo(limit: int | None = None) -> list[Prompt]:
    """Returns the two dozen prompts that come with the package.

    Their categories are chat, code, summary, rewriting, extraction and translation.

    limit: how many to take, evenly spaced over the set. Defaults to all.
    """
    return spaced(read_jsonl(str(DEMO)), limit)


def own() -> list[Prompt]:
    """Returns no prompts: for training recipes that let the target write its own."""
    return []


@checked("data")
def jsonl(
    path: Annotated[str, ExistingFile()],
    limit: int | None = None,
    column: str | None = None,
    skip: bool = False,
) -> list[Prompt]:
    """Returns the prompts in a file with a JSON object per line, in a form of `data.records`.

    path: the file.
    column: the key that holds the prompt: a string, a list of turns, or a list of messages.
        Defaults to that of the record's form.
    limit: how many to take, evenly spaced over the file, so that its categories stay mixed.
        Defaults to all.
    skip: leave out records that are not usable, and say how many.
    """
    return spaced(read_jsonl(path, column, skip=skip), limit)
