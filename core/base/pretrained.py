"""What transformers reads: the names of its classes, which take long to import, and one door."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.base.errors import ConfigError, message_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel as Model
    from transformers import PreTrainedTokenizerBase as Tokenizer
    from transformers.cache_utils import Cache
else:
    Cache = Model = Tokenizer = Any

__all__ = ("Cache", "Model", "Tokenizer")

TRUST = "trust_remote_code"
"""The setting by which code in a model's folder may run."""


def read_pretrained(auto: Any, name: str | Path, **options: Any) -> Any:
    """Returns what an `Auto` class of transformers reads; a folder's own code runs only by `TRUST`.

    options: those of transformers' `from_pretrained`.

    Raises `ConfigError` if it can't be read without such code; transformers would ask.
    """
    try:
        return auto.from_pretrained(name, **({TRUST: False} | options))
    except ValueError as error:
        if TRUST not in message_of(error):
            raise
        line = f"model={str(name)!r} comes with code of its own, which does not run"
        raise ConfigError(f"{line}; once you have read it, {TRUST}=true lets it") from error
