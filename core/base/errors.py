"""Errors for people: one line with the field, the value and what was expected."""

import difflib
import re
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral


class OutriderError(Exception):
    """An error that the user can fix; `str()` of it is one line.

    part: the role and the class of the part that it names, if it comes from one.
    """

    part: str | None = None


class ConfigError(OutriderError, ValueError):
    """A setting has an invalid value, or parts don't fit together."""


class PluginError(OutriderError):
    """A plugin is broken, or two claim one name; the message names the distribution."""


class DrafterError(OutriderError):
    """A drafter raised an error, or wrote a draft that is not valid."""


class TargetError(OutriderError):
    """A target can't be loaded, or returned scores that are not valid."""


class ProcessEnded(SystemExit):
    """This process has done its part of a run that another one leads; it ends with status 0."""


LONGEST = 300
"""The characters of a message that are shown."""

ANY_FAULT = (Exception, SystemExit)
"""What third-party code can raise; its `sys.exit` would end a command silently."""


def is_fault(error: BaseException) -> bool:
    """Returns whether third-party code has failed, by a panic of Rust too; Ctrl-C is no fault."""
    return isinstance(error, ANY_FAULT) or type(error).__module__ == "pyo3_runtime"


def described(error: BaseException, package: str = "") -> str:
    """Returns an error of third-party code as one line: its type, its message and its place.

    package: whose code the place is in; see `place`.

    >>> described(SystemExit(0))
    'SystemExit: 0'
    """
    message = message_of(error)
    if len(message) > LONGEST:
        message = f"{message[:LONGEST]}..."
    return ": ".join(filter(None, (type(error).__name__, message))) + place(error, package)


def message_of(error: BaseException) -> str:
    """Returns the message of an error in one line of UTF-8; "" if it has none, or can't say it."""
    try:
        return " ".join(str(error).split()).encode(errors="backslashreplace").decode()
    except ANY_FAULT:
        return ""


def place(error: BaseException, package: str) -> str:
    """Returns where an error went through a package, " (file:line)", innermost; "" if nowhere.

    package: the name of one of its modules.
    """
    found, top = "", package.partition(".")[0]
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).partition(".")[0] == top:
            found = f" ({frame.f_code.co_filename}:{line})"
    return found


def require(holds: bool, field: str, value: object, expected: str) -> None:
    """Raises `ConfigError` unless `holds`.

    >>> require(0.5 <= 1, "top_p", 0.5, "a number in (0, 1]")
    >>> require(5 <= 1, "top_p", 5, "a number in (0, 1]")
    Traceback (most recent call last):
    outrider.base.errors.ConfigError: top_p=5: expected a number in (0, 1]
    """
    if not holds:
        raise ConfigError(f"{field}={shown(value)}: expected {expected}")


@contextmanager
def refusing(line: str, *faults: type[Exception]) -> Iterator[None]:
    """Raises `ConfigError` in place of some errors of the block, with what they say.

    >>> with refusing("top_p: no number", ValueError):
    ...     float("high")
    Traceback (most recent call last):
    outrider.base.errors.ConfigError: top_p: no number (could not convert string to float: 'high')
    """
    try:
        yield
    except faults as error:
        reason = message_of(error)[:LONGEST] or type(error).__name__
        raise ConfigError(f"{line} ({reason})") from error


def shown(value: object) -> str:
    """Returns a value as it is written in Python, in one line that is not too long.

    >>> shown("few")
    "'few'"
    """
    try:
        text = repr(value)
    except ANY_FAULT:
        text = f"<{type(value).__name__}>"
    first, more, _ = text.partition("\n")  # of a model's, whose layers are the other lines
    text = f"{first.rstrip()}..." if more else text
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def is_int(value: object) -> bool:
    """Returns whether `value` is a whole number, numpy's too; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Returns whether `value` is a number, whole or not; True and False are not."""
    return isinstance(value, float) or is_int(value)


def similar(name: str, names: Iterable[str]) -> str:
    """Returns the end of a message that lists names already: those that are like `name`.

    >>> similar("scald", ["plain", "scaled"])
    "; did you mean 'scaled'?"
    """
    matches = difflib.get_close_matches(name, list(map(str, names)), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(map(repr, matches))}?" if matches else ""


OTHER_NAMES = {
    **{name: f"sampling.{name}" for name in ("temperature", "top_k", "top_p", "min_p")},
    "do_sample": "sampling=standard",
    "stop_strings": "stop",
    "eos_token_id": "stop_token_ids",
    "max_length": "max_new_tokens",
    "max_tokens": "max_new_tokens",
    "num_assistant_tokens": "gamma",
    "num_speculative_tokens": "gamma",
    "num_assistant_tokens_schedule": "policy=heuristic",
    "assistant_confidence_threshold": "policy=confidence policy.threshold",
    "assistant_model": "drafter=small_lm drafter.model",
    "assistant_early_exit": "drafter=early_exit drafter.layers",
    "prompt_lookup_num_tokens": "drafter=prompt_lookup gamma",
    "max_matching_ngram_size": "drafter=prompt_lookup drafter.max_n",
    "repetition_penalty": "constraint=penalties constraint.repetition_penalty",
    "bad_words_ids": "constraint=penalties constraint.bad_words",
}
"""Names of transformers and vLLM, and what settings they are here, as on the command line."""


def nearest(name: str, names: Iterable[str]) -> str:
    """Returns the hint for a name that is not among `names`: the closest ones, and all of them.

    >>> nearest("promt_lookup", ["bigram", "prompt_lookup"])
    "did you mean 'prompt_lookup'? There are: bigram, prompt_lookup"
    """
    known = sorted(names)
    matches = [candidate for candidate in known if candidate.endswith(f".{name}")]
    matches = matches or difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    listed = f"there are: {', '.join(known) or 'none'}"
    said, tops = OTHER_NAMES.get(name, ""), {each.partition(".")[0] for each in known}
    if said and {re.split("[.=]", word)[0] for word in said.split()} <= tops:
        return f"here it is {said}; {listed}"
    hint = " or ".join(repr(match) for match in matches)
    return f"did you mean {hint}? T{listed[1:]}" if matches else listed
