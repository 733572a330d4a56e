"""Expected rounds, tested and accepted tokens of a text, from the acceptance at each position."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@final
@dataclass(frozen=True)
class Replay:
    """What decoding a text is expected to count; see `Overlap` for the fields.

    survived, ended: by depth, from 0 to gamma.
    """

    rounds: float
    tested: float
    accepted: float
    survived: Floats
    ended: Floats

    @classmethod
    def nothing(cls, gamma: int) -> "Replay":
        """Returns zeros."""
        return cls(0.0, 0.0, 0.0, np.zeros(gamma + 1), np.zeros(gamma + 1))


def replay(keep: Floats, has_token: Floats, gamma: int, *, longest: int, ended: bool) -> Replay:
    """Returns the expected counts of decoding a text.

    Given the text, where a round starts depends only on the round before. So the probability that a
    round starts at a position follows from those of the positions before it.

    keep: [positions, depths], for a draft that starts at the position and gets to the depth, the
        probability that the text's token there was drafted and accepted.
    has_token: [positions, depths], 1 where the draft has a token at that depth.
    longest: the most tokens of a draft, by the policy; at most gamma.
    ended: whether the text ends with an end token. Only then may a draft hold its last token.
    """
    positions = len(keep)
    starts = np.zeros(positions + gamma + 1)
    starts[0] = 1.0
    rounds = tested = accepted = 0.0
    survivals, ends = np.zeros((2, gamma + 1))
    for position in range(positions):
        alive = float(starts[position])
        rounds += alive
        depth = 0
        left = positions - position - (not ended)
        room = min(longest, left)
        while alive > 0 and depth < room and has_token[position, depth]:
            acceptance = float(keep[position, depth])
            tested += alive
            accepted += alive * acceptance
            starts[position + depth + 1] += alive * (1 - acceptance)
            ends[depth] += alive * (1 - acceptance)
            alive *= acceptance
            survivals[depth] += alive
            depth += 1
        starts[position + depth + 1] += alive
        if depth < left:  # else the draft could have gone on, but for the end of the text
            ends[depth] += alive
    return Replay(rounds, tested, accepted, survivals, ends)


def at_gamma(by_gamma: Sequence[float], gamma: int) -> Floats:
    """Returns the part for one gamma of `Overlap.survived` or `Overlap.ended` [gamma + 1]."""
    start = (gamma - 1) * (gamma + 2) // 2  # 2 + 3 + ... + gamma values come before
    return np.array(by_gamma[start : start + gamma + 1])
