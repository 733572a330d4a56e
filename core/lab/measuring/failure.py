"""Ends the measuring of a variant that fails, while the others go on."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

from outrider.base.errors import OutriderError, TargetError
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.measuring.variants import PLAIN_NAME, Question


@final
class Failure(Exception):
    """A part of a variant has raised an error.

    error: the error. measurement: what is stored of it.
    """

    def __init__(self, name: str, question: Question, error: OutriderError) -> None:
        super().__init__(str(error))
        self.error = error
        place = question.prompt, question.turn, question.category
        self.measurement = Measurement(*place, name, error=str(error))


@contextmanager
def recording_failure_of(name: str, question: Question) -> Iterator[None]:
    """Raises a `Failure` of a variant in place of its error.

    The target's errors stay as they are, and so does one of memory that is full.

    name: the variant's, or that of plain decoding, all of whose errors stay.
    """
    try:
        yield
    except TargetError:
        raise
    except OutriderError as error:
        if name == PLAIN_NAME:
            raise
        raise Failure(name, question, error) from error
