"""Examples: what a part does in a case that is small enough to read, which the kit then plays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final


@final
@dataclass(frozen=True, kw_only=True)
class DrafterExample:
    """What a drafter writes after a text.

    It is played at temperature 0, or at temperature 1 if it has `probs`. The target counts up:
    after token 3 it finds 4 the likeliest, then 5, and so on around its vocabulary.

    text: the ids before the draft; the prompt, if there are `rounds`.
    draft: the tokens of the draft.
    parents: the node that each of them continues, -1 for the text. Defaults to a chain.
    probs: the probability that each of them was drawn with.
    gamma, budget: the greatest depth of the draft, and the most nodes. `budget` defaults to gamma.
    rounds: how many rounds of the loop come before, for a drafter that learns from them.
    earlier: texts that ended before this one, for a drafter that remembers them. It drafts after
        each of them, too.
    vocab_size: the size of the vocabulary.
    settings: the arguments of the drafter.
    """

    text: Sequence[int]
    draft: Sequence[int]
    parents: Sequence[int] | None = None
    probs: Sequence[float] | None = None
    gamma: int = 4
    budget: int | None = None
    rounds: int = 0
    earlier: Sequence[Sequence[int]] = ()
    vocab_size: int = 10
    settings: Mapping[str, Any] = field(default_factory=dict)


@final
@dataclass(frozen=True, kw_only=True)
class VerifierExample:
    """What an acceptance rule makes of a draft, over all outcomes of all decisions.

    p, q: the distributions of target and drafter after every text. A q that is all on one token
        stands for a token that was written.
    accepted: how many tokens of the draft are accepted on average: with gamma=1, the probability
        that one is. Defaults to not said.
    text: the distribution of the next token of the text. Defaults to p, as with a lossless rule.
    gamma: the depth of the draft.
    siblings: how many tokens are drawn from q at each node.
    kind: how; one of `outrider.contract.draft.KINDS`.
    temperature: of the run.
    settings: the arguments of the rule.
    """

    p: Sequence[float]
    q: Sequence[float]
    accepted: float | None = None
    text: Sequence[float] | None = None
    gamma: int = 1
    siblings: int = 1
    kind: str = "iid"
    temperature: float = 1.0
    settings: Mapping[str, Any] = field(default_factory=dict)


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
