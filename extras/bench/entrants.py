"""Who takes part in a bench, each as the command and config of a worker: Outrider and its peers."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

from outrider.base.errors import require
from outrider.drafters.none import NoDraft
from outrider.drafters.parts.networks import student
from outrider.drafters.parts.networks.drafting_model import located
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.drafters.small_lm import SmallLM
from outrider.plugins.parts import factory_of
from outrider.targets.stored import STORED
from outrider.targets.weights_location import as_folder, gguf_file

VLLM_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "2",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}
PLAIN = "plain"
PEER = str(Path(__file__).with_name("peer.py"))
LLAMA_CPP = str(Path(__file__).with_name("llama_cpp.py"))
"""The programs of the peers, which run by their paths."""


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


def counterparts(
    config: Mapping[str, Any], model: str, label: str, peer: str, setting: Any
) -> list[Entrant]:
    """Returns a peer's entrants: without drafts, and with the same drafter, if it has these.

    They have the target's weights and precision.

    model: the target's folder or hub id. label: what the entrants with that drafter are called.
    setting: the value of `peers.NAME`.

    Raises `ConfigError` if the setting should be the Python of an environment, but is no file, or
    the peer has no such weights.
    """
    python, environment = Path(sys.executable), None
    program: tuple[str, ...] = (PEER, peer)
    target, sampling = config["target"], dict(config["sampling"])
    sampling.pop("_target_", None)
    dtype, quantize, file = target.get("dtype"), target.get("quantize"), target.get("model")
    quantize = None if quantize == STORED else quantize  # others have the same weights in full
    common: dict[str, Any] = {"model": model, "sampling": sampling, "gamma": int(config["gamma"])}
    common["dtype"] = "float32" if dtype in (None, "auto") else dtype
    if peer == "llama_cpp":
        expected = "null, or target.model=FILE.gguf"
        require(gguf_file(file) is not None, f"peers.{peer}", setting, expected)
        common["model"], program = str(gguf_file(file)), (LLAMA_CPP,)
    elif peer != "transformers":
        require(quantize is None, f"peers.{peer}", setting, "null with target.quantize")
    if peer != "transformers":
        # Not resolved: an environment is found by the link, not by the file it points to.
        python = Path(str(setting)).expanduser().absolute()
        expected = f"the python of an environment with {peer}"
        require(python.is_file(), f"peers.{peer}", str(python), expected)
        environment = os.environ | (VLLM_ENVIRONMENT if peer == "vllm" else {})
    elif quantize:
        common["quantize"] = quantize
    plain, drafting = _settings_of_peer(peer, config)
    return [
        Entrant(
            f"{peer} {name}",
            (str(python), *program),
            common | settings,
            environment=environment,
            # With a draft, transformers writes one text at a time.
            writes_together=peer == "vllm" or settings.get("options") == {},
        )
        for name, settings in ((PLAIN, plain), (label, drafting))
        if settings is not None
    ]


def _settings_of_peer(
    peer: str, config: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Returns the settings of a peer's workers: without drafts, and with them, if it has such."""
    drafter, gamma = config["drafter"], int(config["gamma"])
    is_lookup, model = factory_of(drafter) is PromptLookup, _draft_model(drafter)
    ends = {name: int(drafter[f"{name}_n"]) for name in ("max", "min")} if is_lookup else {}
    drafting: dict[str, Any] | None = None
    match peer:
        case "transformers":
            plain: dict[str, Any] = {"options": {}}
            if is_lookup:
                lengths = {"max_matching_ngram_size": ends["max"]}
                drafting = {"options": lengths | {"prompt_lookup_num_tokens": gamma}}
            elif model:
                drafting = {"options": {"assistant_model": as_folder(model, drafter["dtype"])}}
        case "vllm":
            plain = {"max_model_len": 4096, "speculative": None}
            if is_lookup:
                lengths = {f"prompt_lookup_{name}": length for name, length in ends.items()}
                lengths["num_speculative_tokens"] = gamma
                drafting = plain | {"speculative": {"method": "ngram", **lengths}}
        case _:
            plain, file = {"draft": None}, gguf_file(model)
            if is_lookup:
                lengths = {f"{name}_n": length for name, length in ends.items()}
                drafting = {"lookup": lengths | {"gamma": gamma}}
            elif file:
                drafting = {"draft": str(file)}
    return plain, drafting


def _draft_model(drafter: Mapping[str, Any]) -> str | None:
    """Returns the draft model that shares the target's vocabulary, or None."""
    is_small = factory_of(drafter) is SmallLM and drafter["vocabulary"] == "same"
    model = drafter["model"] if is_small else None
    return model if isinstance(model, str) and not student.borrows(located(model)) else None


OUTRIDER_PLAIN = f"outrider {PLAIN}"
"""Outrider without drafts: its texts are the reference for all others."""

OUTRIDER_SETTINGS = (
    "target", "sampling", "budget", "gamma", "chat", "drafter", "verifier", "policy",
    "draft_timeout",
)  # fmt: skip
"""The settings of the run that Outrider's workers receive."""

NO_DRAFT = {"_target_": "outrider.drafters.none.NoDraft"}
FIXED_POLICY = {"_target_": "outrider.contract.policy.Fixed"}


def entrants(
    config: Mapping[str, Any],
    model: str,
    drafters: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Entrant]:
    """Returns the entrants that a config asks for: Outrider's, and their counterparts among peers.

    config: plain values, as Hydra composed them. model: the target's folder or hub id.
    drafters: by name, the configs of further drafters, and of what each has in place of the
        config's: a rule, a policy, a gamma, a budget. They are compared with plain decoding only.

    Raises `ConfigError` if a peer can't take part as it is set, or two entrants have one name.
    """
    drafter = dict(config["drafter"])
    label = str(drafter["_target_"]).rpartition(".")[2]
    peers: Mapping[str, Any] = config["peers"]
    without_drafts = {**config, "drafter": NO_DRAFT, "policy": FIXED_POLICY}
    plain_rivals = tuple(f"{peer} {PLAIN}" for peer in peers)
    entrants = [_outrider(OUTRIDER_PLAIN, without_drafts, plain_rivals)]
    if factory_of(drafter) is not NoDraft:
        drafted_rivals = (f"{peer} {label}" for peer in peers)
        rivals = (OUTRIDER_PLAIN, *drafted_rivals, f"transformers {PLAIN}")
        drafting = _outrider(f"outrider {label}", config, rivals)
        entrants.append(replace(drafting, writes_together=True))
    for name, own in (drafters or {}).items():
        settings = {**config, **own}
        entrants.append(_outrider(f"outrider {name}", settings, (OUTRIDER_PLAIN,)))
        is_new = all(entrant.name != entrants[-1].name for entrant in entrants[:-1])
        require(is_new, "drafters", name, "a name that no other entrant has")
    for peer, setting in peers.items():
        if setting:
            entrants += counterparts(config, model, label, peer, setting)
    return entrants


def _outrider(name: str, config: Mapping[str, Any], rivals: tuple[str, ...]) -> Entrant:
    settings = {key: config[key] for key in OUTRIDER_SETTINGS}
    return Entrant(name, (sys.executable, "-m", "outrider.extras.bench.ours"), settings, rivals)
