"""Drafters of tokens in vLLM's second model runner, which gets their distributions as well."""

from collections.abc import Callable
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.contract.chance import SampledChance
from outrider.contract.draft import Draft
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

    Raises:
        ConfigError: the version of vLLM is not supported, or the drafter needs more than tokens.
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
        for row, request in zip(rows, self._proposer.follow(texts), strict=True):
            slot = slots[row]
            heat, seed = float(temperature[slot]), int(seeds[slot])
            # Its noise is its own, and depends on the request's seed and the place in the text.
            chance = SampledChance.seeded(seed, lengths[row])
            draft = self._proposer.draft(request, Sampling(temperature=heat), chance)
            self._note(drafts[row], self.draft_logits[slot], draft, heat)
        return drafts

    def _note(
        self,
        tokens: Int[Tensor, "gamma"],
        logits: Float[Tensor, "gamma vocab"],
        draft: Draft,
        temperature: float,
    ) -> None:
        """Writes a draft's tokens, and what they were drawn from."""
        tokens[: len(draft)] = torch.tensor(draft.tokens, dtype=torch.int64)
        logits.fill_(LEAST)
        logits.scatter_(-1, tokens[:, None], 0.0)
        for step, probs in enumerate(draft.probs):
            if probs is not None and temperature > 0:
                logits[step] = (probs.log() * temperature).clamp(min=LEAST)
