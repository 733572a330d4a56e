"""What `outrider compare` builds its variants from, and what `run.json` says of them."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from outrider.cli.settings import Compare
from outrider.contract.target import Target
from outrider.data.prompts import Prompt
from outrider.lab.measuring.compare import PROTOCOLS
from outrider.lab.measuring.variants import Variant
from outrider.lab.runs.identity import identity, provenance
from outrider.lab.statistics.pairs import check_reference
from outrider.plugins.config import build, option_configs, plain_values
from outrider.plugins.schema import plain_settings
from outrider.targets.passes.engine import engine_of

VariantConfig = tuple[DictConfig, DictConfig, DictConfig]
"""The configs of a drafter, an acceptance rule and a policy."""

LISTS = ("resume", "drafters", "verifiers", "policies", "reference")
"""The settings that `run.json` does not repeat among its settings."""

SHOWN = ("precision", "pairs", "by_task", "sort", "live", "objective", "reports")
"""The settings that decide what is printed or reported, and nothing else."""


def variant_configs(settings: Compare) -> dict[str, VariantConfig]:
    """Returns the configs of each variant: all combinations of drafters, rules and policies.

    If several rules or policies are listed, their names are part of the variant's name.

    Raises:
        ConfigError: the run's reference is none of them.
    """
    drafters = option_configs("drafter", settings.drafters)
    verifiers, policies = (
        {"": one} if several is None else option_configs(role, several)
        for role, one, several in (
            ("verifier", settings.verifier, settings.verifiers),
            ("policy", settings.policy, settings.policies),
        )
    )
    configs = {
        "/".join(filter(None, names)): (
            drafters[names[0]],
            verifiers[names[1]],
            policies[names[2]],
        )
        for names in itertools.product(drafters, verifiers, policies)
    }
    parts = {name: {"drafter": plain_values(drafter)} for name, (drafter, *_) in configs.items()}
    check_reference(settings.reference, parts)
    return configs


def build_variants(configs: Mapping[str, VariantConfig]) -> dict[str, Variant]:
    """Returns the variants by name."""
    # A drafter may be a whole model, so variants that differ in rule or policy share it.
    drafters = {id(node): build(node) for node, _, _ in configs.values()}
    return {
        name: Variant(drafters[id(drafter)], build(verifier), build(policy))
        for name, (drafter, verifier, policy) in configs.items()
    }


def run_facts(
    settings: Compare,
    configs: Mapping[str, VariantConfig],
    variants: Mapping[str, Variant],
    target: Target,
    prompts: Sequence[Prompt],
) -> dict[str, Any]:
    """Returns the content of `run.json`, which has to be the same when the run is resumed."""
    kept = {
        name: value
        for name, value in plain_settings(settings).items()
        if name not in (*LISTS, *SHOWN)
    }
    parts = {
        name: dict(zip(("drafter", "verifier", "policy"), map(plain_values, nodes), strict=True))
        for name, nodes in configs.items()
    }
    arguments = HydraConfig.get().overrides.task
    remember = [name for name, variant in variants.items() if variant.drafter.remembers]
    themselves = [name for name, variant in variants.items() if variant.drafter.is_target]
    return {
        "settings": kept,
        "drafters": parts,
        "protocols": list(PROTOCOLS[settings.protocol]),
        "reference": settings.reference,
        "lossless": {name: variant.verifier.lossless for name, variant in variants.items()},
        **({"remember": remember} if remember else {}),
        **({"target_itself": themselves} if themselves else {}),
        "questions": [
            [prompt.id, turn, text[:300]]
            for prompt in prompts
            for turn, text in enumerate(prompt.turns, start=1)
        ],
        "identity": identity(target, parts),
        "starts": [
            provenance(str(HydraConfig.get().job.config_name), arguments)
            | {"runs_by": engines_used(target, variants)}
        ],
    }


def engines_used(target: Target, variants: Mapping[str, Variant]) -> dict[str, str]:
    """Returns what computes the passes of the target, and of each drafter's models, in words."""
    models = {"target": [target.model]} | {
        name: [*variant.drafter.models] for name, variant in variants.items()
    }
    return {
        name: "; ".join(dict.fromkeys(engine_of(model).runs_by(model) for model in some))
        for name, some in models.items()
        if some and None not in some
    }
