"""What holds for the rounds of every text; each check raises AssertionError."""

from collections.abc import Sequence

from fuzz.oracle import Oracle
from outrider import Context, Round, Scores, Tokens, Verifier
from outrider.contract.draft import ROOT
from outrider.contract.round import Counts


def tokens_of(rounds: Sequence[Round]) -> list[int]:
    """Returns the tokens that some rounds add to a text."""
    return [token for round in rounds for token in round.tokens]


def check_rounds(rounds: Sequence[Round], oracle: Oracle) -> None:
    """Checks that counts add up, drafts keep to gamma and budget, and the text ends in time."""
    example = oracle.example
    nodes = example.gamma if example.budget is None else example.budget
    for number, round in enumerate(rounds):
        _check_round(round, f"round {number + 1}")
        depths = {ROOT: 0}
        for node, parent in enumerate(round.parents):
            depths[node] = depths[parent] + 1
        assert max(depths.values()) <= example.gamma, f"a draft deeper than gamma: {round}"
        assert len(round.draft) <= nodes, f"a draft of more than {nodes} nodes: {round}"
    counts, text = Counts.of(rounds), tokens_of(rounds)
    cut = len(rounds[-1].tokens) == rounds[-1].accepted  # the text ended inside a draft
    assert counts.emitted == counts.accepted + counts.rounds - cut, f"counts: {counts}"
    efficiency = counts.block_efficiency
    assert efficiency is not None and 1 <= efficiency <= example.gamma + 1, f"counts: {counts}"
    early = [known for known in range(len(text)) if oracle.reason(text[:known]) is not None]
    assert not early, f"the text {text} goes on after its end at {early[0]} tokens"
    reason = oracle.reason(text)
    assert rounds[-1].stop == reason, f"{text} stopped by {rounds[-1].stop}: expected {reason}"


def _check_round(round: Round, name: str) -> None:
    """Checks that the counts of a round fit its tokens, and that its path is in its draft."""
    count = len(round.tokens)
    assert count >= 1, f"{name} adds no token"
    assert len(round.origins) == len(round.pieces) == count, f"{name}: {round}"
    assert round.accepted <= round.tested <= round.accepted + 1, f"{name}: tested {round}"
    assert round.tested <= round.drafted <= len(round.draft), f"{name}: drafted {round}"
    assert len(round.path) == round.accepted, f"{name}: accepted {round}"
    assert round.origins.count("accepted") == round.accepted, f"{name}: origins {round}"
    last = ROOT
    for node, token in zip(round.path, round.tokens, strict=False):
        assert round.parents[node] == last and round.draft[node] == token, f"{name}: path {round}"
        last = node
    assert all(seconds >= 0 for seconds in round.seconds.values()), f"{name}: seconds {round}"


def check_possible(text: Sequence[int], oracle: Oracle, verifier: Verifier) -> None:
    """Checks that the rule allows every token: for a lossless rule, that the target does."""
    for number, (token, row) in enumerate(zip(text, oracle.logits_along(text), strict=True)):
        context = Context(Tokens([*oracle.before, *text[:number]]))
        shown = None if verifier.lossless else context
        allowed = verifier.ceiling(Scores(row[None], oracle.sampling, shown=shown))[0]
        assert allowed[token] > 0, f"token {number + 1} of {list(text)} has probability zero"
