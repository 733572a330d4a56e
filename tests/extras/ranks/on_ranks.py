"""Run by torchrun: decodes on a model that is spread over the ranks, and on a whole copy of it.

python -m torch.distributed.run --nproc-per-node 2 on_ranks.py FOLDER OTHER_FOLDER RESULT.json
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from outrider import Drafter, Sampling, Verifier, decode, generate_together
from outrider.base.errors import OutriderError
from outrider.contract.chance import SampledChance
from outrider.decoding.batches.batch_target import batched
from outrider.drafters.eagle3.drafter import Eagle3
from outrider.drafters.hierarchy import Hierarchy
from outrider.drafters.lookahead_decoding import LookaheadDecoding
from outrider.drafters.medusa import Medusa
from outrider.drafters.none import NoDraft
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.drafters.small_lm import SmallLM
from outrider.drafters.swift import Swift
from outrider.lab.measuring.compare import fit, measure
from outrider.lab.measuring.variants import Question, Settings, Variant
from outrider.policies.goodput import Goodput
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.recursive import Candidates, WithoutReplacement
from outrider.verifiers.token import Token

folder, other, result = sys.argv[1:]
PROMPT = [4, 5, 6, 4, 5]
CASES: dict[str, tuple[Callable[[], Drafter], type[Verifier]]] = {
    "none": (NoDraft, Token), "prompt_lookup": (PromptLookup, Token),
    "first layers": (lambda: SmallLM(layers=2), Token), "small_lm": (lambda: SmallLM(other), Token),
    "hierarchy": (lambda: Hierarchy(layers=2), Token),
    "lookahead_decoding": (LookaheadDecoding, Candidates),
    "eagle3": (lambda: Eagle3("untrained"), Token), "medusa": (lambda: Medusa("untrained"), Token),
    "tree of first layers": (lambda: SmallLM(layers=2, tree="3x2"), WithoutReplacement),
    "tree of small_lm": (lambda: SmallLM(other, tree="3x2"), WithoutReplacement),
    "tree of eagle3": (lambda: Eagle3("untrained", tree="3x2"), WithoutReplacement),
}  # fmt: skip


def texts(target: TransformersTarget) -> dict[str, Any]:
    """Returns the tokens, drafts and paths of the rounds of each case."""
    report: dict[str, Any] = {}
    for name, (make, rule) in CASES.items():
        for temperature in (0.0, 1.0):
            sampling = Sampling(temperature=temperature, seed=5)
            rounds = decode(
                target, make(), rule(), PROMPT, sampling=sampling, budget=9, max_new_tokens=8
            )
            report[f"{name}, {temperature}"] = [(r.tokens, r.draft, r.path) for r in rounds]
    # The depths depend on the clock; the text does not.
    rounds = decode(target, PromptLookup(), Token(), PROMPT, policy=Goodput(), max_new_tokens=8)
    report["goodput"] = [token for round in rounds for token in round.tokens]
    (report["written"],) = batched(target).write([PROMPT], Sampling(), [SampledChance.seeded(0)], 6)
    question = Question("1", 1, "chat", PROMPT, report["written"])
    variants = {"small": Variant(SmallLM(layers=2), Token())}
    fit(target, variants)
    (alpha,) = measure(target, variants, [question], Settings(gamma=2), protocol="overlap")
    assert alpha.overlap is not None
    report["beta"] = [round(beta, 9) for beta in alpha.overlap.beta]
    both = generate_together(target, [PROMPT, [7, 8, 7]], max_new_tokens=8)
    report["together"] = [generation.tokens for generation in both]
    return report


def refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except OutriderError as error:
        return str(error)
    return "nothing was raised"


# The other ranks end here.
spread = TransformersTarget(folder, dtype="float64", tensor_parallel=True)
whole = TransformersTarget(folder, dtype="float64", optimize="none")
sharded, projection = (it.model.model.layers[0].self_attn.k_proj for it in (spread, whole))
shards = [list(it.shape) for it in (sharded.weight.to_local(), projection.weight)]
report = {"spread": texts(spread), "whole": texts(whole), "shards": shards}
refusals = {
    "cache": refusal(lambda: decode(spread, Swift(), Token(), PROMPT)),
    "alone": refusal(lambda: spread.model(torch.tensor([[1]]))),
    "second": refusal(lambda: TransformersTarget(folder, tensor_parallel=True)),
}
Path(result).write_text(json.dumps(report | {"refusals": refusals}))
