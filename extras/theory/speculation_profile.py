"""speculation_profile.json: how good a drafter is, in the format that NVIDIA's tools exchange.

The format is that of schema 1.0 in examples/specdec_bench of NVIDIA's Model-Optimizer. Dynamo's
mocker reads its conditional rates, vLLM's synthetic acceptance the marginal ones.
"""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, final

from pydantic import BaseModel, Field, ValidationError, model_validator

from outrider.base.contents import json_in
from outrider.base.errors import ConfigError
from outrider.base.folders import write_whole
from outrider.lab.runs.files import reason_of
from outrider.lab.runs.report import Report
from outrider.lab.runs.row import Row
from outrider.lab.runs.speculation_profile import NAME, TOLERANCE, Subject, class_name, profile
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.acceptance import Acceptance

Rate = Annotated[float, Field(ge=0, le=1)]


class SpeculationProfile(BaseModel):
    """The entries of a profile that the format's rules are about; see `read_profile`."""

    schema_version: Literal["1.0"]
    measured: Literal[True]
    method: str | None = None
    num_speculative_tokens: Annotated[int, Field(ge=1)]
    verification_method: Literal["longest_prefix", "block"]
    conditional_accept_rates: list[Rate]
    marginal_accept_rates: list[Rate]
    mean_accept_length: Annotated[float, Field(ge=1)]
    accept_length_model: Literal["chain_analytic", "measured_per_k"]
    accept_length_by_k: dict[str, float]

    @model_validator(mode="after")
    def _agree(self) -> "SpeculationProfile":
        tokens, marginal = self.num_speculative_tokens, self.marginal_accept_rates
        for name in ("conditional_accept_rates", "marginal_accept_rates"):
            if len(getattr(self, name)) != tokens:
                raise ValueError(f"expected {tokens} {name}, one for each speculative token")
        if any(after > before + 1e-9 for before, after in pairwise(marginal)):
            raise ValueError("expected marginal_accept_rates that do not rise")
        gap = abs(1 + sum(marginal) - self.mean_accept_length)
        if self.verification_method == "longest_prefix" and gap > TOLERANCE:
            raise ValueError(
                f"mean_accept_length={self.mean_accept_length}: expected {1 + sum(marginal):.3f},"
                " which the marginal_accept_rates imply"
            )
        return self

    def tokens_by_length(self) -> dict[int, float]:
        """Returns the expected tokens of a round, by the number of speculative tokens.

        A draft of fewer tokens is the beginning of a longer one where `accept_length_model` is
        "chain_analytic"; else there are only the lengths that were measured.
        """
        if self.accept_length_model == "measured_per_k":
            return {int(length): tokens for length, tokens in self.accept_length_by_k.items()}
        rates = self.marginal_accept_rates
        return {length: 1 + sum(rates[:length]) for length in range(1, len(rates) + 1)}


def read_profile(path: Path) -> SpeculationProfile:
    """Returns a profile of ours or of another tool.

    Raises `ConfigError` if there is no such file, or it breaks a rule of the format; the message
    says which.
    """
    try:
        return SpeculationProfile.model_validate(json_in(path))
    except OSError as error:
        raise ConfigError(f"profile={str(path)!r}: expected a file ({error.strerror})") from None
    except ValidationError as error:
        raise ConfigError(f"{path}: {reason_of(error).removeprefix(': ')}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: expected JSON ({error})") from None


@final
class Profiles(Report):
    """The profile of each drafter of a run, beside its measurements."""

    def end(self, summaries: Mapping[str, Summary], folder: Path) -> tuple[Path, ...]:
        for summary in summaries.values():
            if summary.run.folder == folder:
                write_profiles(summary, folder)
        return ()


def write_profiles(summary: Summary, folder: Path) -> list[Path]:
    """Writes the profile of each drafter that drafted, into a folder of its own in `profiles`."""
    written = []
    for row in summary.rows:
        if row.acceptance is not None and row.counts is not None and row.counts.drafted:
            path = folder / "profiles" / row.drafter.replace("/", "-") / NAME
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(profile_of(summary, row, row.acceptance), indent=2) + "\n")
            written.append(path)
    return written


def profile_of(summary: Summary, row: Row, acceptance: Acceptance) -> dict[str, Any]:
    facts = summary.run.facts
    settings, config = facts["settings"], facts["drafters"][row.drafter]
    rule = class_name(config.get("verifier") or settings.get("verifier"))
    policy = class_name(config.get("policy") or settings.get("policy"))
    drafter = config.get("drafter") or {}
    subject = Subject(drafter, settings.get("target"), rule, policy, row.ranks is None)
    mean = acceptance.mean_acceptance_length
    conditions = {
        "engine": "outrider",
        "concurrency": 1,
        "prompts": row.prompts,
        "verifier": rule,
        "policy": policy,
        "temperature": (settings.get("sampling") or {}).get("temperature"),
        "max_new_tokens": settings.get("max_new_tokens"),
        "mean_accept_length_interval": [mean.low, mean.high],
    }
    lengths = {
        task: float(summary.statistic(row.drafter, "block_efficiency", prompts).value)
        for task, prompts in summary.tasks.items()
    }
    categories = {task: {"mean_accept_length": round(value, 6)} for task, value in lengths.items()}
    return profile(acceptance, subject, conditions) | {"per_category": categories}
