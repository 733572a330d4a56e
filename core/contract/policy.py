"""Policy: decides how long each draft is, by the tokens already in it and by earlier rounds."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

from outrider.contract.draft import Draft
from outrider.contract.round import Round


class Policy(ABC):
    """Decides how long to draft.

    Its answers never depend on a token that is not in the draft: to draw a token, look at it and
    then leave it out would bias the text.

    examples: how long its drafts are in some rounds. The conformance kit runs them.
    texts_before: how many texts it has learned from in earlier runs, if it keeps what it learns.
    lossless: whether the text is the target's with it; False if it looks at what is not in a draft.
    """

    examples: ClassVar[Sequence["PolicyExample"]] = ()
    texts_before: int = 0
    lossless: bool = True

    def notice(self, length: int, texts: int) -> None:
        """Is told before each draft what its cost may depend on.

        length: how many tokens the text has, prompt included.
        texts: how many texts the target scores together.
        """

    @abstractmethod
    def depth(self, gamma: int) -> int:
        """Returns the depth of the next draft, from 0 (no draft) to `gamma`."""

    def more(self, draft: Draft) -> bool:
        """Returns whether to go on drafting. Asked after each token or group of siblings."""
        return True

    def observe(self, round: Round) -> None:
        """Learns from a finished round."""

    @property
    def learns(self) -> bool:
        """Returns whether its answers may depend on the rounds before.

        If they don't, the lab can work out the expected tokens per call.
        """
        return type(self).observe is not Policy.observe

    def reset(self) -> None:
        """Forgets what belongs to one prompt. Called before each prompt."""

    @property
    def texts(self) -> dict[str, int]:
        """Returns how many texts it has decided on, by the label of their chance.

        The loop keeps this book. A policy that has seen a text with the same seed could know the
        random decisions of the next one, so that gets others.
        """
        counts: dict[str, int] = self.__dict__.setdefault("_texts", {})
        return counts


@final
class Fixed(Policy):
    """Always drafts to the full depth."""

    def depth(self, gamma: int) -> int:
        return gamma


@final
@dataclass(frozen=True, kw_only=True)
class PolicyExample:
    """How long the drafts of some rounds are.

    rounds: for each round how many tokens its draft has, and how many of them are accepted.
    gamma: the greatest depth of a draft.
    texts: how many rounds each text has. Defaults to all of them in one text.
    probabilities: that the drafter gives to each token of a draft. The rest is on one other token,
        and the last one holds for all further tokens.
    parents: the node that each token continues, -1 for the text. Defaults to a chain. Nodes with
        one parent are written together.
    branch: the nodes that are accepted one after the other. Defaults to those of a chain.
    seconds: of drafting one token, and of a call of the target.
    settings: the arguments of the policy.
    """

    rounds: Sequence[tuple[int, int]]
    gamma: int
    texts: Sequence[int] | None = None
    probabilities: Sequence[float] = (0.9,)
    parents: Sequence[int] | None = None
    branch: Sequence[int] | None = None
    seconds: tuple[float, float] = (0.01, 0.1)
    settings: Mapping[str, Any] = field(default_factory=dict)
