"""What a file holds: its text or its JSON, or what is wrong with the file."""

import gzip
import zlib
from json import JSONDecodeError, loads
from pathlib import Path
from typing import Any

POINTER = b"version https://git-lfs"
"""How a file begins that stands for one that has not been downloaded."""

GZIP = b"\x1f\x8b"


def fault_of(path: Path) -> str | None:
    """Returns what is wrong with a file, whatever it should hold; None if nothing is."""
    with path.open("rb") as file:
        start = file.read(len(POINTER))
    if start == POINTER:
        return "a pointer of git lfs: expected the file itself: `git lfs pull` fetches it"
    return None if start else "it is empty"


def text_in(path: Path) -> str:
    """Returns the text in a file; raises `ValueError` as `decoded`, also if it is empty."""
    if fault := fault_of(path):
        raise ValueError(fault)
    return decoded(path.read_bytes())


def decoded(content: bytes) -> str:
    """Returns text, unpacked if it is a gzip, without a byte order mark.

    Raises `ValueError` for what is no text in UTF-8, or damaged; the message says which.
    """
    try:
        content = gzip.decompress(content) if content.startswith(GZIP) else content
        text = content.decode("utf-8-sig")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"damaged gzip ({error})") from error
    except UnicodeDecodeError as error:
        line = f"expected text in UTF-8 ({error.reason} at byte {error.start})"
        raise ValueError(line) from error
    if "\0" in text:
        raise ValueError("expected text in UTF-8, it has bytes of zero, as UTF-16 does")
    return text


def json_of(content: str | bytes, **options: Any) -> Any:
    """Returns the value of some JSON.

    options: those of `json.loads`.

    Raises `JSONDecodeError` if it is none, no UTF-8, nested too deeply, or has too long a number.
    """
    try:
        return loads(content, **options)
    except JSONDecodeError:
        raise
    except RecursionError as error:
        raise JSONDecodeError("Nested too deeply", "", 0) from error
    except ValueError as error:
        raise JSONDecodeError(str(error), "", 0) from error


def strict_json(content: str | bytes, **options: Any) -> Any:
    """Returns the value of JSON without NaN and infinities; raises as `json_of`.

    pydantic's own reader refuses halves of surrogate pairs.
    """

    def refuse(name: str) -> float:
        raise ValueError(f"{name} is no number")

    return json_of(content, parse_constant=refuse, **options)


def json_in(path: Path) -> Any:
    """Returns the value of the JSON in a file; raises as `json_of` and `text_in`."""
    return json_of(text_in(path))
