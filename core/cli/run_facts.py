"""What `run.json` says of a run of `outrider compare`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig

from outrider.base.folders import write_whole
from outrider.cli.settings import Compare
from outrider.contract.target import Target
from outrider.data.prompts import Prompt
from outrider.lab.measuring.compare import PROTOCOLS
from outrider.lab.measuring.variants import Variant
from outrider.lab.runs.identity import identity, provenance
from outrider.lab.runs.training_prompts import trained_on
from outrider.plugins.fingerprint import hash_of
from outrider.plugins.reading import plain_settings, plain_values
from outrider.targets.passes.engine import engine_of

LISTS = ("resume", "drafters", "verifiers", "policies", "reference")
"""The settings that `run.json` does not repeat among its settings."""

SHOWN = (
    "precision", "pairs", "by_task", "sort", "live", "objective", "reports", "workers", "cluster",
    "lossy",
)  # fmt: skip
"""The settings that decide what is printed or reported, or who measures, and nothing else."""


def run_facts(
    settings: Compare,
    configs: Mapping[str, Mapping[str, Any]],
    variants: Mapping[str, Variant],
    target: Target,
    prompts: Sequence[Prompt],
) -> dict[str, Any]:
    """Returns the content of `run.json`, which has to be the same when the run is resumed.

    configs: by variant, the configs of its `drafter`, `verifier` and `policy`, and its lengths.
    """
    start = {"runs_by": _engines(target, variants)}
    given, parts = plain_settings(settings), plain_values(configs)
    kept = {name: value for name, value in given.items() if name not in (*LISTS, *SHOWN)}
    arguments = HydraConfig.get().overrides.task
    remember = [name for name, variant in variants.items() if variant.drafter.remembers]
    themselves = [name for name, variant in variants.items() if variant.drafter.is_target]
    trained = trained_on(parts, target, prompts)
    return {
        "settings": kept,
        "drafters": parts,
        "protocols": list(PROTOCOLS[settings.protocol]),
        "reference": settings.reference,
        "lossless": {name: variant.verifier.lossless for name, variant in variants.items()},
        **({"remember": remember} if remember else {}),
        **({"target_itself": themselves} if themselves else {}),
        **({"trained_on": trained} if trained else {}),
        "questions": [
            [prompt.id, turn, text[:300]]
            for prompt in prompts
            for turn, text in enumerate(prompt.turns, start=1)
        ],
        "identity": identity(target, parts, given["quality"]),
        "starts": [provenance(str(HydraConfig.get().job.config_name), arguments) | start],
    }


CERTIFICATE = "certificate.json"


def certify(folder: Path, target: Target, configs: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes what shows later that a run was exact, of one that has refused all that is not.

    configs: as those of `run_facts`.
    """
    parts = plain_values(configs)
    facts = {"lossless": True, "parts": parts, "identity": identity(target, parts)}
    facts |= {"logprobs": "the target's own, of the passes that have accepted the text"}
    write_whole(folder / CERTIFICATE, json.dumps(facts | {"sha256": hash_of(facts)}, indent=1))


def _engines(target: Target, variants: Mapping[str, Variant]) -> dict[str, str]:
    """Returns what computes the passes of the target, and of each drafter's models, in words."""
    models = {"target": [target.model]} | {
        name: [*variant.drafter.models] for name, variant in variants.items()
    }
    return {
        name: "; ".join(dict.fromkeys(engine_of(model).runs_by(model) for model in some))
        for name, some in models.items()
        if some and None not in some
    }
