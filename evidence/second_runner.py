"""vLLM's second runner as a drafter sees it: requests in slots, and a call for some of them."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, final

import torch
from torch import Tensor

from outrider import Context, Drafter, Pen
from outrider.extras.serving.vllm_patch import OutriderSpeculator

GAMMA, LONGEST = 3, 16


@final
class Drawing(Drafter):
    """Draws from a table of logits, by the token before."""

    def __init__(self, table: Tensor) -> None:
        self._table = table

    def propose(self, context: Context, pen: Pen) -> None:
        last = context.tokens[-1]
        while pen.open:
            last = pen.draw(self._table[last])


def vllm_config(gamma: int, longest: int, vocab_size: int, slots: int = 1) -> Any:
    """Returns what Outrider reads of vLLM's config."""
    return SimpleNamespace(
        model_config=SimpleNamespace(
            max_model_len=longest, get_vocab_size=lambda: vocab_size, skip_tokenizer_init=True
        ),
        scheduler_config=SimpleNamespace(max_num_seqs=slots),
        speculative_config=SimpleNamespace(num_speculative_tokens=gamma),
    )


def speculator(
    make: Callable[[], Drafter],
    texts: Mapping[int, Sequence[int]],
    vocab_size: int,
    slots: int = 8,
    version: str | None = None,
) -> OutriderSpeculator:
    """Returns one for requests with these texts. texts: by slot."""
    ids, lengths = torch.zeros(slots, LONGEST, dtype=torch.int32), torch.zeros(slots).int()
    for slot, text in texts.items():
        ids[slot, : len(text)] = torch.tensor(text)
        lengths[slot] = len(text)
    states = SimpleNamespace(
        all_token_ids=SimpleNamespace(gpu=ids), total_len=SimpleNamespace(gpu=lengths)
    )
    config = vllm_config(GAMMA, LONGEST, vocab_size, slots)
    return OutriderSpeculator(config, torch.device("cpu"), states, make, version)


def called(
    served: OutriderSpeculator,
    slots: Sequence[int],
    temperature: Tensor,
    seeds: Tensor,
    sampled: Sequence[int] = (),
    **more: Any,
) -> Tensor:
    """Returns the drafts for the requests in these slots.

    sampled: how many tokens each has just sampled; one by default.
    """
    states = served._states
    lengths, ids = states.total_len.gpu, states.all_token_ids.gpu
    last = ids.gather(1, (lengths.long() - 1).clamp(min=0)[:, None]).long()
    batch = SimpleNamespace(num_reqs=len(slots), idx_mapping=torch.tensor([*slots]))
    counts = torch.tensor(sampled or [1] * len(slots))
    nothing = torch.zeros(1, len(temperature))
    return served.propose(
        batch, None, {}, None, None, counts, 0 * counts, last, nothing, temperature, seeds, **more
    )
