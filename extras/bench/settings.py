"""Settings of `outrider bench`: their types and bounds; `conf/bench.yaml` says what they mean."""

from dataclasses import dataclass
from typing import final

from outrider.base.bounds import Count, Seconds
from outrider.cli.settings import Decoding, Drafters, Part, Reports


@final
@dataclass(frozen=True, kw_only=True)
class Peers:
    transformers: bool
    vllm: str | None
    llama_cpp: str | None


@final
@dataclass(frozen=True, kw_only=True)
class Bench(Decoding):
    drafter: Part
    data: Part
    drafters: Drafters
    peers: Peers
    repeats: Count
    batches: list[Count]
    turns: Count
    draft_timeout: Seconds | None
    reports: Reports
