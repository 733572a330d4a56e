"""Greedy texts of every drafter and mode against transformers' `generate`, token for token.

    python evidence/texts.py --prompts questions.jsonl --count 12 --tokens 128
    python evidence/texts.py --target ./edits/target --draft ./edits/draft
        --prompts edits/questions.jsonl
    python evidence/texts.py --target gemma3 --past-window 300 --modes modes
    python evidence/texts.py --modes modes --dtypes bfloat16 float32 --page precision.md

`generate(do_sample=False)` runs on a model of the same precision. The exit status is 1 if a float32
text differs. Every batch of prompts leaves a line in `--results`, if it is given; what is already
there is not written again.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from math import floor, log2
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers
from pages import write_page
from rich.progress import track
from torch import Tensor

import outrider
from outrider import SampledChance, Sampling, Target, Tokens, decode_together
from outrider.data import jsonl as data
from outrider.decoding.batches.batch_target import batched
from outrider.drafters.parts.texts.datastore import write_store
from outrider.plugins.parts import make
from outrider.plugins.registry import installed

Texts = list[list[int]]
GROUP = 4
"""Prompts of a batch."""
BUDGET = 16
"""The number of nodes of a tree."""
GENERATE, PLAIN = "generate", "plain"
DTYPES = ("float32", "bfloat16")
UNTRAINED = {"pard": "model"} | dict.fromkeys(
    ("dflash", "hydra", "mtp", "peagle", "redrafter"), "path"
)
"""Drafters of which no trained weights come with the package, and their setting for weights."""

OTHERS = ("assistant",)
"""Drafters that draft for targets of one architecture alone, which these are not."""


@dataclass(frozen=True)
class Mode:
    """A way to write texts.

    drafter: its settings; None for texts that the target writes by itself.
    is_together: whether the texts of a batch are written at once.
    optimize: how the target's passes run.
    """

    drafter: Mapping[str, Any] | None
    rule: str = "token"
    is_together: bool = False
    optimize: str = "auto"


LOOKUP, TREE = {"drafter": "prompt_lookup"}, {"drafter": "bigram", "tree": "dynamic:8"}
MODES = {
    f"generate, batch of {GROUP}": Mode(None, is_together=True, optimize="none"),
    "plain, optimize=none": Mode({"drafter": "none"}, optimize="none"),
    PLAIN: Mode({"drafter": "none"}),
    "prompt_lookup": Mode(LOOKUP),
    "eagle": Mode({"drafter": "eagle"}),
    "small_lm": Mode({"drafter": "small_lm"}),
    "small_lm, tree top:3x2x1": Mode({"drafter": "small_lm", "tree": "top:3x2x1"}, "candidates"),
    "bigram, tree dynamic:8": Mode(TREE, "traversal"),
    f"plain, batch of {GROUP}": Mode({"drafter": "none"}, is_together=True),
    f"prompt_lookup, batch of {GROUP}": Mode(LOOKUP, is_together=True),
    f"bigram, tree dynamic:8, batch of {GROUP}": Mode(TREE, "traversal", is_together=True),
    f"write, batch of {GROUP}": Mode(None, is_together=True),
}
"""Ways to write, by the names to print."""


def every_drafter(target: Target, draft: str | None, store: str) -> dict[str, Mode]:
    """Returns a mode for each drafter that a target can have, and some with trees.

    draft: the model of small_lm and hierarchy. store: the folder of rest's texts.
    """
    has_source = "source" in target.offers
    modes = {}
    named = installed().of("drafter")
    for name, entry in ((name, it) for name, it in named.items() if name not in OTHERS):
        settings: dict[str, Any] = {"drafter": name}
        settings |= {UNTRAINED[name]: "untrained"} if name in UNTRAINED else {}
        settings |= {"path": store} if name == "rest" else {}
        settings |= {"model": draft} if draft and name in ("small_lm", "hierarchy") else {}
        needs = make("drafter", settings).needs
        is_own = entry.distribution == "outrider" and ("source" in needs) == has_source
        if is_own or (has_source and not needs):
            is_one = make("drafter", settings).kind == "deterministic"
            modes[name] = Mode(settings, "candidates" if is_one else "token")
    small = modes["small_lm"].drafter or {}
    modes["small_lm top:3x2x1"] = Mode({**small, "tree": "top:3x2x1"}, "candidates")
    modes["bigram dynamic:8"] = Mode(TREE, "traversal")
    if not has_source:
        modes["eagle3 dynamic:8"] = Mode({"drafter": "eagle3", "tree": "dynamic:8"}, "candidates")
    return modes


def generate(target: Target, prompts: Texts, length: int) -> Texts:
    """Returns the texts of transformers' `generate`, for prompts padded on the left."""
    width = max(map(len, prompts))
    ids = [[0] * (width - len(prompt)) + prompt for prompt in prompts]
    mask = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    rows = target.model.generate(
        torch.tensor(ids), attention_mask=torch.tensor(mask), do_sample=False, max_new_tokens=length
    )
    begun = 1 if "source" in target.offers else width
    texts = [row[begun:].tolist() for row in rows]
    for text in texts:
        del text[next((at for at, token in enumerate(text, 1) if token in target.eos), len(text)) :]
    return texts


def written(target: Target, mode: Mode, prompts: Texts, length: int) -> Texts:
    """Returns the texts that a mode writes after some prompts."""
    if mode.drafter is None and mode.optimize == "none":
        return generate(target, prompts, length)
    if mode.drafter is None:
        chances = [SampledChance.seeded(0) for _ in prompts]
        return batched(target).write(prompts, Sampling(), chances, length)
    drafter, rule = make("drafter", mode.drafter), make("verifier", mode.rule)
    options = {"gamma": 5, "budget": BUDGET if drafter.trees else None, "max_new_tokens": length}
    texts: Texts = [[] for _ in prompts]
    everyone = list(range(len(prompts)))
    for numbers in [everyone] if mode.is_together else [[number] for number in everyone]:
        some = [prompts[number] for number in numbers]
        for index, round in decode_together(target, drafter, rule, some, **options):
            texts[numbers[index]] += round.tokens
    return texts


def read(target: Target, prompt: Sequence[int], text: Sequence[int]) -> Tensor:
    """Returns the logits at every position of a text, read in one pass of transformers' code."""
    given = {"input_ids": torch.tensor([[*prompt, *text]])}
    if "source" in target.offers:
        begun = torch.tensor([[*target.begin(prompt)[0], *text]])
        given = {"input_ids": torch.tensor([list(prompt)]), "decoder_input_ids": begun}
    with torch.no_grad():
        rows: Tensor = target.model(**given).logits[0, -len(text) - 1 : -1]
    return rows


def parting(
    text: Sequence[int], other: Sequence[int], prompt: Sequence[int], targets: Sequence[Target]
) -> dict[str, float] | None:
    """Returns where a text departs from another, and how far apart the two tokens' logits are.

    targets: of the text's own precision, and of float32.
    """
    if list(text) == list(other):
        return None
    position = Tokens([*text]).shared(Tokens([*other]))
    if position >= min(len(text), len(other)):
        return {"position": position, "gap": 0.0, "units": 0.0, "float32_gap": 0.0}
    stored, exact = (read(target, prompt, other)[position] for target in targets)
    one, two = other[position], text[position]
    gap, exact_gap = (float(row[one]) - float(row[two]) for row in (stored, exact))
    size = max(abs(float(stored[one])), abs(float(stored[two])))
    last_place = torch.finfo(stored.dtype).eps * 2.0 ** floor(log2(size or 1.0))
    return {"position": position, "gap": gap, "units": gap / last_place, "float32_gap": exact_gap}


def compared(
    options: argparse.Namespace, prompts: Sequence[tuple[str, list[int]]], modes: Mapping[str, Mode]
) -> Iterator[dict[str, Any]]:
    """Yields for each prompt and precision where each mode's text parts from two others."""
    load = partial(make, "target", options.target)
    exact = load(dtype="float32", optimize="none")
    settings = {
        "weights": exact.fingerprint(),
        "versions": [outrider.__version__, torch.__version__, transformers.__version__],
        "prompts": sha256(json.dumps(prompts).encode()).hexdigest(),
        "tokens": options.tokens,
        "modes": list(modes),
    }
    done = {(it["dtype"], it["id"]): it for it in saved(options.results, settings)}
    for dtype in options.dtypes:
        plain = exact if dtype == "float32" else load(dtype=dtype, optimize="none")
        targets = {"none": plain, "auto": load(dtype=dtype)}
        groups = [prompts[first : first + GROUP] for first in range(0, len(prompts), GROUP)]
        for group in track(groups, f"Writing in {dtype}", disable=not sys.stderr.isatty()):
            if all((dtype, name) in done for name, _ in group):
                yield from (done[dtype, name] for name, _ in group)
                continue
            ids = [tokens for _, tokens in group]
            texts = {GENERATE: [generate(plain, [one], options.tokens)[0] for one in ids]}
            for name, mode in modes.items():
                texts[name] = written(targets[mode.optimize], mode, ids, options.tokens)
            for number, (name, prompt) in enumerate(group):
                record: dict[str, Any] = {"dtype": dtype, "id": name, "settings": settings}
                for base in (GENERATE, PLAIN) if PLAIN in texts else (GENERATE,):
                    record[base] = {
                        mode: parting(some[number], texts[base][number], prompt, (plain, exact))
                        for mode, some in texts.items()
                        if mode != base
                    }
                if options.results:
                    with options.results.open("a") as file:
                        file.write(json.dumps(record) + "\n")
                yield record


def saved(file: Path | None, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the records of a file; ends the program if other settings made them."""
    lines = file.read_text().splitlines() if file and file.is_file() else []
    records = [json.loads(line) for line in lines]
    for record in records:
        for name, value in settings.items():
            if record["settings"].get(name) != value:
                old = record["settings"].get(name)
                print(f"{file}: {name} {old}: expected {value}", file=sys.stderr)
                sys.exit(2)
    return records


def table(records: Sequence[dict[str, Any]], dtypes: Sequence[str]) -> Iterator[str]:
    """Yields the lines of the table: a row for each mode in each precision."""
    headings = ("differs from `generate`'s", "from `plain`'s", "first at token", "units apart")
    yield f"| text | in | {' | '.join(headings)} | in float32 |"
    yield "|---" * (len(headings) + 3) + "|"
    for dtype in dtypes:
        of_dtype = [record for record in records if record["dtype"] == dtype]
        for mode in of_dtype[0][GENERATE]:
            apart = [it[GENERATE][mode] for it in of_dtype if it[GENERATE][mode]]
            from_plain = [it for it in of_dtype if it.get(PLAIN, {}).get(mode)]
            cells = [f"{len(apart)} of {len(of_dtype)}"]
            cells.append("" if mode == PLAIN else f"{len(from_plain)} of {len(of_dtype)}")
            for name, form in (("position", ".0f"), ("units", ".0f"), ("float32_gap", ".2f")):
                values = [abs(one[name]) for one in apart]
                cells.append(f"{median(values):{form}} ({max(values):{form}})" if apart else "")
            yield f"| {mode} | {dtype} | {' | '.join(cells)} |"


def asked(options: argparse.Namespace, target: Target) -> list[tuple[str, list[int]]]:
    """Returns the names and ids of the prompts."""
    read = data.jsonl(options.prompts) if options.prompts else data.demo()
    if options.past_window is None:
        prompts = read[:: options.every][: options.count]
        return [(it.id, target.encode(it.turns[0], chat=True)) for it in prompts]
    window = target.model.config.sliding_window
    turns = [prompt.turns[0] for prompt in read]
    halves = turns[: len(turns) // 2], turns[len(turns) // 2 :]
    ids = [target.encode_turns(half) for half in halves]
    return [("before the window", ids[0][: window - 12]), ("past it", ids[1][: window + 48])]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prompts", help="a JSONL data set; defaults to the demo prompts")
    parser.add_argument("--count", type=int, help="of prompts, at most")
    parser.add_argument("--every", type=int, default=1, help="take every N-th prompt")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--past-window", type=int, help="write two texts so far past the window")
    parser.add_argument("--target", default="smollm2", help="a name, hub id or folder")
    parser.add_argument("--draft", help="the model of small_lm and hierarchy, likewise")
    parser.add_argument("--modes", default="drafters", choices=["drafters", "modes"])
    parser.add_argument("--only", nargs="*", help="names of those to run; defaults to all")
    parser.add_argument("--dtypes", nargs="*", default=DTYPES[:1], choices=DTYPES)
    parser.add_argument("--page", type=Path, help="a page to put the table in")
    parser.add_argument("--results", type=Path, help="a file of JSON lines")
    options = parser.parse_args()
    target = make("target", options.target, dtype="float32", optimize="none")
    prompts = asked(options, target)
    if options.past_window is not None:
        options.tokens = options.past_window + 12
    with tempfile.TemporaryDirectory() as store:
        write_store(Path(store), [ids for _, ids in prompts], target)
        drafters = every_drafter(target, options.draft, store)
        modes = drafters if options.modes == "drafters" else MODES
        modes = {name: modes[name] for name in options.only or modes}
        records = list(compared(options, prompts, modes))
    lines = list(table(records, options.dtypes))
    print(*lines, sep="\n")
    if options.page:
        write_page(options.page, "precision", lines)
    exact = [it[GENERATE] for it in records if it["dtype"] == "float32"]
    different = sum(it is not None for partings in exact for it in partings.values())
    print(f"{len(prompts)} prompts, {len(modes)} modes: {different} texts of float32 differ")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
