"""Whose tokens a file of texts holds: it fits the targets with the same tokenizer."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from outrider.base.errors import ConfigError
from outrider.contract.target import Target


def tokens_of(target: Target) -> dict[str, Any]:
    """Returns the entries of a file's config that say whose tokens it holds."""
    return {"vocab_size": target.vocab_size, "tokenizer": _fingerprint(target)}


def require_same_tokens(setting: str, config: Mapping[str, Any], target: Target) -> None:
    """Raises `ConfigError` unless the tokens of a file are the target's.

    setting: the setting that names the file, with its value.
    config: has the entries of `tokens_of` for the target that the file was made with.
    """
    own, size = _fingerprint(target), target.vocab_size
    saved = config.get("tokenizer")
    if config.get("vocab_size") != size:
        raise ConfigError(
            f"{setting}: its vocabulary has {config.get('vocab_size')} tokens, the target's {size}"
        )
    if own is not None and saved is not None and own != saved:
        raise ConfigError(
            f"{setting}: its texts were cut by another tokenizer than the target's"
            f" (fingerprints {saved} and {own})"
        )


def _fingerprint(target: Target) -> str | None:
    """Returns a hash of the tokens of the target's tokenizer and their ids; None without one."""
    if target.tokenizer is None:
        return None
    entries = json.dumps(sorted(target.tokenizer.get_vocab().items()))
    return hashlib.sha256(entries.encode()).hexdigest()[:16]
