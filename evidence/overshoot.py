"""What lossy rules spend, and what it buys, on texts that they write themselves.

    python evidence/overshoot.py --prompts 8 --tokens 48

For each rule, the tokens a call and the overshoot: by how much it accepts drafted tokens beyond
what the target would write, sum_x max(0, q(x) P(accept x) - p(x)), as a mean over the tested tokens
of drafts (2607.26627). Where a rule can't say how likely it accepts a token, as FLy, the sum is
estimated without bias by what it did: 1 for a token that stays, and 0 for one that does not, less
p(x) / q(x), where q(x) > p(x). `truncation` has the threshold of `typical`, and samples from the
truncated target.
"""

import argparse
from collections.abc import Mapping
from typing import Any, final

from outrider import Chance, Draft, Sampling, Scores, Verdict, Verifier, decode
from outrider.contract.round import Counts
from outrider.data.jsonl import demo
from outrider.plugins.registry import make

RULES: Mapping[str, tuple[dict[str, Any], ...]] = {
    "temperature 1": (
        {"verifier": "token"},
        {"verifier": "typical"},
        {"verifier": "truncation"},
        {"verifier": "lenient"},
        {"verifier": "cactus"},
        {"verifier": "cascade"},
        {"verifier": "fly", "window": 2},
        {"verifier": "fly", "window": 4},
    ),
    "temperature 0": (
        {"verifier": "token"},
        {"verifier": "lenient"},
        {"verifier": "fly", "window": 2},
        {"verifier": "fly", "window": 4},
    ),
}


@final
class Metered(Verifier):
    """A rule whose overshoot is added up.

    spent: the overshoot so far, summed over the `tested` tokens of drafts.
    """

    def __init__(self, rule: Verifier) -> None:
        self._rule = rule
        self.takes = rule.takes
        self.spent, self.tested = 0.0, 0

    @property
    def lossless(self) -> bool:
        return self._rule.lossless

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        verdict = self._rule.verify(draft, scores, chance)
        for node, token in enumerate(draft.tokens[: len(verdict.accepted) + 1]):
            p = scores.after(node - 1).double()
            q = draft.distribution(node, p).double()
            rates = self._rule.accepts(q, scores, node - 1)
            if rates is not None:
                self.spent += float((q * rates - p).clamp(min=0).sum())
            elif q[token] > p[token]:
                self.spent += (node in verdict.accepted) - float(p[token] / q[token])
            self.tested += 1
        return verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--gamma", type=int, default=5)
    parser.add_argument("--drafter", default="small_lm")
    options = parser.parse_args()
    target, drafter = make("target", {"target": "smollm2"}), make("drafter", options.drafter)
    prompts = [target.encode(prompt.turns[0], chat=True) for prompt in demo(options.prompts)]
    for name, rules in RULES.items():
        print(f"{name}\n\n| rule | tokens a call | overshoot |\n|---|---|---|")
        for settings in rules:
            rule = Metered(make("verifier", settings))
            counts = Counts()
            for number, prompt in enumerate(prompts):
                rounds = decode(
                    target, drafter, rule, prompt,
                    gamma=options.gamma, max_new_tokens=options.tokens, number=number,
                    sampling=Sampling(temperature=float(name.split()[-1])),
                )  # fmt: skip
                counts += Counts.of(rounds)
            label = ", ".join(f"{key} {value}" for key, value in settings.items())
            spent = rule.spent / max(1, rule.tested)
            label = label.removeprefix("verifier ")
            print(f"| {label} | {counts.block_efficiency:.2f} | {spent:.3f} |", flush=True)
        print()


if __name__ == "__main__":
    main()
