"""JSON as plain values, with one error for whatever is none."""

from json import JSONDecodeError, loads
from pathlib import Path
from typing import Any

from outrider.base.contents import text_in


def json_of(content: str | bytes, **options: Any) -> Any:
    """Returns the value of some JSON.

    options: those of `json.loads`.

    Raises:
        JSONDecodeError: it is no JSON, no UTF-8, nested too deeply, or has too long a number.
    """
    try:
        return loads(content, **options)
    except JSONDecodeError:
        raise
    except RecursionError as error:
        raise JSONDecodeError("Nested too deeply", "", 0) from error
    except ValueError as error:
        raise JSONDecodeError(str(error), "", 0) from error


def json_in(path: Path) -> Any:
    """Returns the value of the JSON in a file; raises as `json_of` and `text_in`."""
    return json_of(text_in(path))
