"""Greedy text of every drafter against transformers' generate(do_sample=False), token for token.

python evidence/greedy.py --prompts questions.jsonl --count 12 --tokens 128
python evidence/greedy.py --target ./edits/target --draft ./edits/draft
    --prompts edits/questions.jsonl
"""

import argparse
import sys
import tempfile
from pathlib import Path

import torch
from rich.progress import track

from outrider import Tokens, decode
from outrider.data import jsonl as data
from outrider.drafters.parts.texts.datastore import write_store
from outrider.plugins.registry import installed, make

WITHOUT_WEIGHTS = ("dflash", "falcon", "hydra", "mtp", "peagle", "redrafter")
"""Networks on the target's states of which no trained weights come with the package."""
TREES = {
    "lookahead_decoding": ("lookahead_decoding", None, "candidates"),
    "small_lm top:3x2x1": ("small_lm", "top:3x2x1", "candidates"),
    "bigram dynamic:8": ("bigram", "dynamic:8", "traversal"),
}
BOTH = ("none", "random", "unigram", "bigram", "prompt_lookup", "small_lm", "hierarchy")
"""Drafters of chains for every target."""
CHAINS = (
    *("suffix", "rest", "hybrid", "self_sparse", "swift", "early_exit", "quantized", "online"),
    *("pard", "medusa", "mlp_speculator", "eagle", "eagle3", *WITHOUT_WEIGHTS),
)
ENTRANTS = {
    **{name: (name, None, "token") for name in (*BOTH, *CHAINS)},
    **TREES,
    "token_recycling": ("token_recycling", None, "candidates"),
    "eagle3 dynamic:8": ("eagle3", "dynamic:8", "candidates"),
}
"""Drafter, tree and rule, by the name to print."""
WITH_SOURCE = {name: (name, None, "token") for name in (*BOTH, "shallow_aggressive")} | TREES
"""The same for a target with an encoder."""
UNTRAINED = {"pard": "model"} | dict.fromkeys(WITHOUT_WEIGHTS, "path")
"""Drafters of which no trained weights come with the package, and their setting for weights."""
BUDGET = 16
"""The number of nodes of a tree."""


def _options(drafter: str, tree: str | None, draft: str | None, store: str) -> dict[str, str]:
    # No trained weights come with the package for these.
    untrained = {UNTRAINED[drafter]: "untrained"} if drafter in UNTRAINED else {}
    untrained |= {"path": store} if drafter == "rest" else {}
    small = {"model": draft} if draft and drafter in ("small_lm", "hierarchy") else {}
    return untrained | small | ({"tree": tree} if tree else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", help="a JSONL data set; defaults to the demo prompts")
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--gamma", type=int, default=5)
    parser.add_argument("--target", default="smollm2", help="a name, hub id or folder")
    parser.add_argument("--draft", help="the model of small_lm and hierarchy, likewise")
    parser.add_argument("--only", nargs="*", help="names of the drafters to run; defaults to all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as store:
        sys.exit(compared(options, Path(store)) > 0)


def compared(options: argparse.Namespace, store: Path) -> int:
    """Returns how many texts differ from transformers' own. store: an empty folder."""
    limit = options.count
    prompts = data.jsonl(options.prompts, limit) if options.prompts else data.demo(limit)
    target = make("target", options.target)
    entrants = WITH_SOURCE if "source" in target.offers else ENTRANTS
    texts = [target.encode(turn) for prompt in prompts for turn in prompt.turns]
    write_store(store, texts, target)
    used = {drafter for drafter, *_ in (*ENTRANTS.values(), *WITH_SOURCE.values())}
    assert used == set(installed().of("drafter")), "a built-in drafter is left out"
    drafters = {
        name: (
            make("drafter", drafter, **_options(drafter, tree, options.draft, str(store))),
            make("verifier", rule),
        )
        for name, (drafter, tree, rule) in entrants.items()
    }
    if options.only:
        drafters = {name: drafters[name] for name in options.only}
    different = 0
    for prompt in track(prompts, "Comparing"):
        ids = target.encode(prompt.turns[0], chat=True)
        reference = target.model.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            do_sample=False,
            max_new_tokens=options.tokens,
        )[0, len(target.begin(ids)[0]) :].tolist()
        for name, (drafter, rule) in drafters.items():
            rounds = decode(
                target,
                drafter,
                rule,
                ids,
                gamma=options.gamma,
                budget=BUDGET if drafter.trees else None,
                max_new_tokens=options.tokens,
            )
            text = [token for round in rounds for token in round.tokens]
            if text != reference:
                position = Tokens(text).shared(Tokens(reference))
                print(f"{name} on prompt {prompt.id}: differs at token {position}", file=sys.stderr)
                different += 1
    print(f"{len(prompts)} prompts, {len(drafters)} drafters: {different} texts differ")
    return different


if __name__ == "__main__":
    main()
