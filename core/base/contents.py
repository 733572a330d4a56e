"""What a file holds: its text, or what is wrong with the file whatever it should hold."""

import gzip
import zlib
from pathlib import Path

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
