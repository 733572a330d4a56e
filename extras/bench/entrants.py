"""Who takes part in a bench, each as the command and config of a worker."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from outrider.base.errors import require
from outrider.drafters.none import NoDraft
from outrider.extras.bench.peers import PLAIN, Counterparts, Entrant
from outrider.plugins.parts import factory_of

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
    dtype: torch.dtype,
    drafters: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Entrant]:
    """Returns the entrants that a config asks for: Outrider's, and their counterparts among peers.

    config: plain values, as Hydra composed them. model: the target's folder or hub id.
    drafters: by name, the configs of further drafters, and of what each has in place of the
        config's: a rule, a policy, a gamma, a budget. They are compared with plain decoding only.

    Raises:
        ConfigError: a peer can't take part as it is set, or two entrants have one name.
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
    precision = str(dtype).removeprefix("torch.")
    quantize = config["target"].get("quantize")
    gamma = int(config["gamma"])
    counterparts = Counterparts(model, precision, drafter, label, gamma, quantize)
    for peer, setting in peers.items():
        if setting:
            entrants += counterparts.of(peer, setting)
    return entrants


def _outrider(name: str, config: Mapping[str, Any], rivals: tuple[str, ...]) -> Entrant:
    settings = {key: config[key] for key in OUTRIDER_SETTINGS}
    return Entrant(name, (sys.executable, "-m", "outrider.extras.bench.ours"), settings, rivals)
