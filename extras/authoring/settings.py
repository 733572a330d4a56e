"""The settings of the command `check`; `conf/check.yaml` has the defaults."""

from dataclasses import dataclass
from typing import final

from outrider.cli.settings import Part


@final
@dataclass(frozen=True, kw_only=True)
class Check:
    drafter: Part = None
    verifier: Part = None
    policy: Part = None
    target: Part = None
    engine: Part = None
    constraint: Part = None
    data: Part = None
    recipe: Part = None
    report: Part = None
    score: Part = None
    thorough: bool
