"""Patches of vLLM: its sampling, and drafters in its second model runner."""

import logging
import os
import sys
from collections.abc import Callable
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.contract.chance import SampledChance
from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.extras.serving.vllm import OutriderProposer

LEAST = -1e4
"""The logit of a token that is not drafted. vLLM subtracts logits, so none may be infinite."""


@final
class OutriderSpeculator:
    """What the second runner of vLLM 0.32 calls a speculator, for drafters that need only tokens.

    It keeps to vLLM's `BaseSpeculator`. A drafter that draws does so at the request's temperature,
    by the request's seed, and vLLM gets q: so it accepts a token with min(1, p(x) / q(x)). In place
    of tokens that a draft does not have it gets the last token of the text, as a point mass.

    states: the engine's requests, whose texts are read from `all_token_ids` and `total_len`.
    make, version: as for `OutriderProposer`, which this is built on.

    draft_logits: log q times the temperature [requests, gamma, vocab], by the request's slot.

    Raises `ConfigError` if this vLLM is not supported, or the drafter needs more than tokens.
    """

    num_query_per_req = 1
    num_extra_query_per_req = 0
    supports_mm_inputs = False
    pcp_manager: Any = None

    def __init__(
        self,
        vllm_config: Any,
        device: torch.device,
        states: Any,
        make: Callable[[], Drafter] | None = None,
        version: str | None = None,
    ) -> None:
        self._proposer = OutriderProposer(vllm_config, make, version)
        self._states = states
        self._longest = int(vllm_config.model_config.max_model_len)
        rows = int(vllm_config.scheduler_config.max_num_seqs)
        gamma = int(vllm_config.speculative_config.num_speculative_tokens)
        vocab_size = int(vllm_config.model_config.get_vocab_size())
        self._drafts = torch.zeros(rows, gamma, dtype=torch.int64, device=device)
        self.draft_logits: Float[Tensor, "requests gamma vocab"] = torch.full(
            (rows, gamma, vocab_size), LEAST, device=device
        )

    def init_cudagraph_manager(self, cudagraph_mode: Any) -> None:
        """Does nothing: drafters run outside graphs."""

    def capture(self) -> None:
        """Does nothing: there is no graph to capture."""

    def propose(  # noqa: PLR0913, PLR0917  vLLM's own interface
        self,
        input_batch: Any,
        attn_metadata: Any,
        slot_mappings: Any,
        last_hidden_states: Tensor | None,
        aux_hidden_states: list[Tensor] | None,
        num_sampled: Int[Tensor, "rows"],
        num_rejected: Int[Tensor, "rows"],
        last_sampled: Int[Tensor, "requests 1"],
        next_prefill_tokens: Int[Tensor, "lookahead requests"],
        temperature: Float[Tensor, "requests"],
        seeds: Int[Tensor, "requests"],
        *,
        dummy_run: bool = False,
        **_: Any,
    ) -> Int[Tensor, "rows gamma"]:
        """Returns a draft for each row of the batch, and notes its distributions.

        A row whose prompt is still being read gets no more than a point mass, which nobody reads.
        """
        drafts = self._drafts[: input_batch.num_reqs]
        if dummy_run:
            return drafts
        slots = input_batch.idx_mapping[: input_batch.num_reqs].tolist()
        lengths = self._states.total_len.gpu[slots].tolist()
        drafts.copy_(last_sampled[slots])
        sampled = num_sampled.tolist()
        rows = [row for row in range(len(slots)) if sampled[row] and lengths[row] < self._longest]
        ids = self._states.all_token_ids.gpu
        texts = (ids[slots[row], : lengths[row]].cpu().numpy() for row in rows)
        for row, request in zip(rows, self._proposer.requests.follow(texts), strict=True):
            slot = slots[row]
            heat, seed = float(temperature[slot]), int(seeds[slot])
            # Its noise is its own, and depends on the request's seed and the place in the text.
            chance = SampledChance.seeded(seed, lengths[row])
            draft = self._proposer.draft(request, Sampling(temperature=heat), chance)
            drafts[row, : len(draft)] = torch.tensor(draft.tokens, dtype=torch.int64)
            logits = self.draft_logits[slot].fill_(LEAST)
            logits.scatter_(-1, drafts[row][:, None], 0.0)
            for step, probs in enumerate(draft.probs):
                if probs is not None and heat > 0:
                    logits[step] = (probs.log() * heat).clamp(min=LEAST)
        return drafts


SECOND_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
"""The environment variable that asks vLLM for its second runner."""

log: logging.Logger = logging.getLogger("vllm.outrider")


def patch_sampling() -> None:
    """Gives vLLM on CPUs another `expand_batch_to_tokens`, if its own is wrong.

    That of 0.32 fills a copy on CPUs, so that temperature, top-k and top-p of drafted positions are
    whatever was in memory (https://github.com/vllm-project/vllm/issues/55005): drafts make sampled
    requests and their neighbours wrong.
    """
    from vllm.platforms import current_platform  # type: ignore[import-not-found]

    if not current_platform.is_cpu():
        return
    from vllm.v1.sample import rejection_sampler  # type: ignore[import-not-found]

    if _is_right(rejection_sampler.expand_batch_to_tokens):
        return
    rejection_sampler.expand_batch_to_tokens = expand_batch_to_tokens
    log.info("vLLM issue 55005 is patched: drafts leave sampled texts as they are")


def _is_right(function: Any) -> bool:
    """Returns whether an engine's function gives each token the setting of its request."""
    arguments = torch.tensor([0.5, 0.0]), torch.tensor([2, 3], dtype=torch.int32), 3
    try:
        found = function(*arguments, replace_from=0, replace_to=1)
    except Exception:  # noqa: BLE001  whatever an engine's own function raises
        return False
    return isinstance(found, Tensor) and found.tolist() == [0.5, 0.5, 1.0]


def expand_batch_to_tokens(
    x: Tensor,
    cu_num_tokens: Int[Tensor, "batch"],
    num_tokens: int,
    replace_from: int = 0,
    replace_to: int = 0,
) -> Tensor:
    """Returns a setting of each request [batch] at each of its tokens [num_tokens], as vLLM has it.

    cu_num_tokens: the tokens of the requests up to each one.
    replace_from, replace_to: a value to be replaced, and what by.
    """
    counts = cu_num_tokens.diff(prepend=cu_num_tokens.new_zeros(1))
    expanded = x.repeat_interleave(counts, output_size=num_tokens)
    return expanded.masked_fill(expanded == replace_from, replace_to)


def patch_second_runner() -> None:
    """Makes vLLM's second runner take `"method": "custom_class"`, which it refuses by itself.

    Other methods go to vLLM's function, and without `VLLM_USE_V2_MODEL_RUNNER=1` nothing is
    changed.
    """
    if os.environ.get(SECOND_RUNNER) != "1":
        return
    from vllm.v1.worker.gpu import spec_decode  # type: ignore[import-not-found]

    original = spec_decode.init_speculator

    def init_speculator(vllm_config: Any, device: torch.device, states: Any) -> Any:
        if vllm_config.speculative_config.method != "custom_class":
            return original(vllm_config, device, states)
        return OutriderSpeculator(vllm_config, device, states)

    spec_decode.init_speculator = init_speculator
    # The runner has a name of its own for it, if it was imported before.
    runner = sys.modules.get("vllm.v1.worker.gpu.model_runner")
    if runner is not None:
        runner.init_speculator = init_speculator  # type: ignore[attr-defined]
