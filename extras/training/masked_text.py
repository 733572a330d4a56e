"""The tokens of a text, and masks behind many of them, that a network learns from at once."""

from dataclasses import dataclass
from typing import Annotated, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from outrider.base.bounds import Within

Kept = Annotated[float, Within("(0, 1]")]
"""The share of the masks that stays from each depth to the next."""


@final
@dataclass(frozen=True, slots=True)
class MaskedText:
    """What a network reads in training: the tokens of a text, and masks behind many of them.

    positions: where each row stands in the text; it predicts the token at the next position.
    masks: how many masks lie between the row's last token and its end; 0 for the tokens.
    """

    positions: Int[Tensor, "rows"]
    masks: Int[Tensor, "rows"]

    @classmethod
    def sampled(cls, length: int, depth: int, retain: float) -> "MaskedText":
        """Returns the rows for a text, with masks dropped at random (PARD, section 3.2).

        A mask stays only if the one before it does, which it has to see.

        depth: how many tokens are predicted behind each token of the text.
        retain: the share of the masks that stays from each depth to the next.
        """
        kept = torch.arange(length)
        positions, masks = [kept], [torch.zeros_like(kept)]
        for count in range(1, depth):
            behind = kept[kept < length - 1] + 1
            chosen = torch.randperm(len(behind))[: round(retain * len(behind))]
            kept = behind[chosen].sort().values
            positions.append(kept)
            masks.append(torch.full_like(kept, count))
        return cls(torch.cat(positions), torch.cat(masks))

    def reach(self) -> Bool[Tensor, "1 1 rows rows"]:
        """Returns what each row attends to.

        That is the text up to its own last token, and the masks between that and itself.
        """
        last = self.positions - self.masks
        is_text = self.masks == 0
        sees_text = is_text & (self.positions <= last[:, None])
        sees_mask = ~is_text & (last == last[:, None]) & (self.masks <= self.masks[:, None])
        return (sees_text | sees_mask)[None, None]
