"""Other libraries in a bench, each with the counterpart of Outrider's drafter."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from outrider.base.errors import require
from outrider.drafters.parts.networks import student
from outrider.drafters.parts.networks.drafting_model import located
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.drafters.small_lm import SmallLM
from outrider.plugins.parts import factory_of
from outrider.targets.weights_location import as_folder

VLLM_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "2",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}
PLAIN = "plain"
PEER = str(Path(__file__).with_name("peer.py"))
"""The program of every peer, which runs by its path."""


@final
@dataclass(frozen=True)
class Entrant:
    """A worker to start.

    settings: its first line, which says what to load.
    rivals: the entrants that its speed is compared with, if they take part.
    writes_together: whether it answers how fast it writes several texts at once.
    """

    name: str
    command: tuple[str, ...]
    settings: Mapping[str, Any]
    rivals: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    writes_together: bool = False


@final
@dataclass(frozen=True, slots=True)
class Counterparts:
    """What all peers have in common: the target, its precision, and the drafter to match.

    model: the target's folder or hub id. dtype: as all peers spell it, such as "float32".
    drafter: the config of Outrider's drafter. label: what the entrants with it are called.
    quantize: how the target's weights are rounded; None if they are not.
    """

    model: str
    dtype: str
    drafter: Mapping[str, Any]
    label: str
    gamma: int
    quantize: str | None = None

    def of(self, peer: str, setting: Any) -> list[Entrant]:
        """Returns a peer's entrants: without drafts, and with the same drafter, if it has these.

        setting: the value of `peers.NAME`.

        Raises:
            ConfigError: it should be the Python of an environment, but is not a file, or the peer
                has no weights of eight bits.
        """
        if peer == "transformers":
            return self._transformers()
        is_like_target = self.quantize is None
        require(is_like_target, f"peers.{peer}", setting, "null with target.quantize=int8")
        python = Path(str(setting)).expanduser()
        expected = f"the python of an environment with {peer}"
        require(python.is_file(), f"peers.{peer}", str(python), expected)
        # Not resolved: a virtual environment is found by the link, not by the file it points to.
        command = (str(python.absolute()), PEER, peer)
        environment = os.environ | (VLLM_ENVIRONMENT if peer == "vllm" else {})
        common = {"model": self.model, "dtype": self.dtype}
        return [
            Entrant(f"{peer} {label}", command, common | settings, (), environment, peer == "vllm")
            for label, settings in self._settings(peer).items()
        ]

    def _settings(self, peer: str) -> dict[str, dict[str, Any]]:
        """Returns the settings of a peer's workers, by the labels of the entrants."""
        lookup = self._lookup()
        if peer == "vllm":
            plain = {"max_model_len": 4096, "speculative": None}
            return {PLAIN: plain} | (
                {self.label: plain | {"speculative": {"method": "ngram"} | _for_vllm(lookup)}}
                if lookup
                else {}
            )
        # flashspec decodes with a drafter only.
        plain_settings = {} if peer == "flashspec" else {PLAIN: {"lookup": None}}
        return plain_settings | ({self.label: {"lookup": lookup}} if lookup else {})

    def _lookup(self) -> dict[str, int] | None:
        """Returns the lengths of prompt lookup, or None if the drafter is another."""
        if factory_of(self.drafter) is not PromptLookup:
            return None
        lengths = {name: int(self.drafter[name]) for name in ("max_n", "min_n")}
        return lengths | {"gamma": self.gamma}

    def _transformers(self) -> list[Entrant]:
        command = (sys.executable, PEER, "transformers")
        common = {"model": self.model, "dtype": self.dtype, "gamma": self.gamma}
        if self.quantize:
            common["quantize"] = self.quantize
        options = self._assisted_options()
        by_label: dict[str, dict[str, Any]] = {PLAIN: {}}
        if options:
            by_label[self.label] = options
        return [
            # With a draft, transformers writes one text at a time.
            Entrant(
                f"transformers {label}",
                command,
                common | {"options": options},
                writes_together=not options,
            )
            for label, options in by_label.items()
        ]

    def _assisted_options(self) -> dict[str, Any] | None:
        """Returns transformers' options for the same drafter, or None if it has none."""
        lookup = self._lookup()
        if lookup:
            return {
                "prompt_lookup_num_tokens": lookup["gamma"],
                "max_matching_ngram_size": lookup["max_n"],
            }
        if factory_of(self.drafter) is SmallLM and self.drafter["vocabulary"] == "same":
            model = self.drafter["model"]
            if isinstance(model, str) and not student.borrows(located(model)):
                return {"assistant_model": as_folder(model, self.drafter["dtype"])}
        return None


def _for_vllm(lookup: Mapping[str, int]) -> dict[str, int]:
    return {
        "num_speculative_tokens": lookup["gamma"],
        "prompt_lookup_max": lookup["max_n"],
        "prompt_lookup_min": lookup["min_n"],
    }
