"""What Outrider brings for several texts at once."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.pretrained import Model
from outrider.contract.chance import Chance
from outrider.contract.draft import ROOT, Draft
from outrider.contract.round import Round
from outrider.contract.sampling import Sampling
from outrider.contract.target import Session, Target
from outrider.contract.verifier import Verdict
from outrider.decoding.batching import Batching
from outrider.decoding.run import ActiveText, Run
from outrider.extras.batches.batch_target import BatchTarget
from outrider.extras.batches.batched import batched
from outrider.extras.batches.continuous_batch import Batch, rounds_together
from outrider.extras.batches.sessions import open_sessions, score_sessions
from outrider.targets.self_test_text import differ


@final
class SideBySide(Batching):
    """Texts that share their passes, if the target can score them so."""

    target: ClassVar[type[Any]] = BatchTarget
    checks: ClassVar[str] = "outrider.extras.batches.checks:CHECKS"

    def rounds(
        self,
        run: Run,
        prompts: Sequence[Sequence[int]],
        needs: frozenset[str],
        size: int,
        begin: Callable[[int, Session], ActiveText],
    ) -> Iterator[tuple[int, Round]]:
        return rounds_together(run, Batch(run.target, prompts, needs, size, begin))

    def write(
        self,
        target: Target,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        chances: Sequence[Chance],
        max_new_tokens: int,
    ) -> list[list[int]]:
        return batched(target).write(prompts, sampling, chances, max_new_tokens)

    def batch_differs(
        self,
        model: Model,
        text: Sequence[int],
        others: Sequence[int],
        logits: Float[Tensor, "tokens vocab"],
        *,
        branches: bool,
    ) -> bool:
        """Reads two texts, the second a part of the first, with a rollback between two passes."""
        *start, one, two, three, four = text
        long, short = opened = open_sessions(model, [start, text[:2]], frozenset())
        other, another = others
        draft, path = Draft((one, two), (ROOT, 0), (None,) * 2), (0, 1)
        if branches:
            draft = Draft((other, one, another, two), (ROOT, ROOT, 0, 1), (None,) * 4)
            path = (1, 3)
        rows, short_rows = score_sessions(opened, [draft, _chain(text[2])])
        on_path = rows[[0, *(node + 1 for node in path)]]
        long.commit(Verdict(path, three))
        short.commit(Verdict((), text[2]))
        more, short_more = score_sessions(opened, [_chain(four), _chain(text[3])])
        read = torch.cat([on_path, more, short_rows, short_more])
        return differ(read, torch.cat([logits[len(start) - 1 :], logits[1:3], logits[2:4]]))


def _chain(token: int) -> Draft:
    return Draft((token,), (ROOT,), (None,))
