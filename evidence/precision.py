r"""Greedy texts in bfloat16 and float32, in every mode, and the logits where they part.

    python evidence/precision.py --prompts questions.jsonl --every 4 \
    --page docs/evidence/precision.md

Each text is held to that of transformers' `generate(do_sample=False)` on a model of the same
precision, and to Outrider's own plain text. Every prompt leaves a line in `--results`; what is
already there is not run again. The exit status is 1 if a float32 text differs.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
import transformers
from rich.progress import track
from torch import Tensor

import outrider
from outrider import Sampling, Target, decode, decode_together
from outrider.contract.chance import SampledChance
from outrider.data import jsonl as data
from outrider.data.prompts import Prompt
from outrider.decoding.batches.batched import batched
from outrider.plugins.registry import make

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tests")]

from partings import Texts, generate, last_place, parting, read, until_eos
from precision_cause import moved
from precision_page import DTYPES, PLAIN, REFERENCE, page_lines
from tiny.page_parts import write_page

GROUP = 4
"""Prompts of a batch."""

DRAFTED: dict[str, tuple[dict[str, Any], str]] = {
    "plain": ({"drafter": "none"}, "token"),
    "prompt_lookup": ({"drafter": "prompt_lookup"}, "token"),
    "eagle": ({"drafter": "eagle"}, "token"),
    "small_lm": ({"drafter": "small_lm", "model": "smollm2"}, "token"),
    "small_lm, tree top:3x2x1": (
        {"drafter": "small_lm", "model": "smollm2", "tree": "top:3x2x1"},
        "candidates",
    ),
}
"""Drafter and rule of the modes that write one text at a time, on packed weights."""

ALL = "plain, optimize=none"
MODES = (
    f"{REFERENCE}, batch of {GROUP}", ALL, *DRAFTED, f"prompt_lookup, batch of {GROUP}",
    f"write, batch of {GROUP}",
)  # fmt: skip
Writer = Callable[[Texts, int], Texts]
"""Maps prompts and a length to the texts that follow."""


def generated_together(target: Target, prompts: Texts, length: int) -> Texts:
    width = max(map(len, prompts))
    sequences = generate(target, prompts, length).sequences[:, width:]
    return [until_eos(target, text) for text in sequences.tolist()]


def decoded(target: Target, drafter: Any, rule: Any, prompts: Texts, length: int) -> Texts:
    """Returns the texts of prompts that are decoded one after the other."""
    budget = 16 if drafter.trees else None
    options: dict[str, Any] = {"gamma": 5, "budget": budget, "max_new_tokens": length}
    return [
        [
            token
            for round in decode(target, drafter, rule, prompt, **options)
            for token in round.tokens
        ]
        for prompt in prompts
    ]


def decoded_together(target: Target, drafter: Any, rule: Any, prompts: Texts, length: int) -> Texts:
    texts: Texts = [[] for _ in prompts]
    rounds = decode_together(target, drafter, rule, prompts, gamma=5, max_new_tokens=length)
    for number, round in rounds:
        texts[number] += round.tokens
    return texts


def written(target: Target, prompts: Texts, length: int) -> Texts:
    chances = [SampledChance.seeded(0) for _ in prompts]
    return batched(target).write(prompts, Sampling(), chances, length)


def writers(plain: Target, packed: Target, modes: Sequence[str]) -> dict[str, Writer]:
    """Returns the ways to write, by the names of their modes.

    plain: runs transformers' own code. packed: the same model, as Outrider runs it on a CPU.
    """
    token = make("verifier", "token")
    lookup = make("drafter", "prompt_lookup")
    by_mode: dict[str, Writer] = {
        MODES[0]: partial(generated_together, plain),
        ALL: partial(decoded, plain, make("drafter", "none"), token),
        MODES[-2]: partial(decoded_together, packed, lookup, token),
        MODES[-1]: partial(written, packed),
    }
    for name, (drafter, rule) in DRAFTED.items():
        parts = make("drafter", drafter), make("verifier", rule)
        by_mode[name] = partial(decoded, packed, *parts)
    return {mode: by_mode[mode] for mode in modes}


def top_two(stepped: Tensor, at_once: Tensor) -> dict[str, list[float]]:
    """Returns how far apart the two best logits are at each position, in units of the last place.

    "moved" is by how much that differs from the same text read in one pass.
    """
    best = stepped.topk(2)
    both = at_once.gather(-1, best.indices).float()
    gaps, others = best.values[:, 0] - best.values[:, 1], both[:, 0] - both[:, 1]
    sizes = best.values.abs().amax(-1).tolist()
    units = torch.tensor([last_place(size, at_once.dtype) for size in sizes])
    return {"gaps": (gaps / units).tolist(), "moved": ((gaps - others).abs() / units).tolist()}


def run_group(
    prompts: Sequence[tuple[Prompt, list[int]]],
    targets: Mapping[str, Target],
    by_mode: Mapping[str, Writer],
    dtype: str,
    length: int,
) -> list[dict[str, Any]]:
    """Returns a record for each prompt of a batch: its texts, and where they part.

    targets: transformers' own code, by precision.
    """
    target, exact = targets[dtype], targets["float32"]
    ids = [tokens for _, tokens in prompts]
    references = [generate(target, [tokens], length, output_logits=True) for tokens in ids]
    texts = {mode: write(ids, length) for mode, write in by_mode.items()}
    records = []
    for number, (prompt, tokens) in enumerate(prompts):
        reference = references[number].sequences[0, len(tokens) :].tolist()
        of_prompt = {mode: written[number] for mode, written in texts.items()}
        of_prompt[REFERENCE] = reference

        def rows(text: list[int], tokens: list[int] = tokens) -> tuple[Tensor, Tensor]:
            return read(target, tokens, text), read(exact, tokens, text)

        record: dict[str, Any] = {"id": prompt.id, "category": prompt.category, "dtype": dtype}
        record["texts"] = of_prompt
        record["top_two"] = top_two(torch.cat(references[number].logits), rows(reference)[0])
        for name in (REFERENCE, PLAIN):
            base = of_prompt.get(name, reference)
            others = {mode: text for mode, text in of_prompt.items() if mode != name}
            record[name] = {
                mode: parting(text, base, partial(rows, base)) for mode, text in others.items()
            }
        records.append(record)
    return records


def spread(prompts: Sequence[Prompt]) -> list[Sequence[Prompt]]:
    """Returns the batches, in an order that soon covers all parts of the file."""
    groups = [prompts[first : first + GROUP] for first in range(0, len(prompts), GROUP)]
    return [group for first in range(4) for group in groups[first::4]]


def saved(file: Path, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the records of a file.

    Raises:
        SystemExit: they were made with other settings.
    """
    lines = file.read_text().splitlines() if file.is_file() else []
    records = [json.loads(line) for line in lines]
    for record in records:
        for name, value in settings.items():
            if record["settings"].get(name) != value:
                old = record["settings"].get(name)
                print(f"{file}: {name} {old}: expected {value}", file=sys.stderr)
                sys.exit(2)
    return records


def run(options: argparse.Namespace, file: Path) -> list[dict[str, Any]]:
    """Writes the records of all prompts that have none yet, and returns all records."""
    everything = data.jsonl(options.prompts) if options.prompts else data.demo()
    prompts = everything[:: options.every]
    groups = spread(prompts)[: options.batches]
    load = partial(make, "target", options.target)
    plain = {dtype: load(dtype=dtype, optimize="none") for dtype in DTYPES}
    settings = {
        "weights": plain["float32"].fingerprint(),
        "versions": [outrider.__version__, torch.__version__, transformers.__version__],
        "prompts": sha256("".join(prompt.turns[0] for prompt in everything).encode()).hexdigest(),
        "tokens": options.tokens,
        "modes": list(options.modes),
    }
    records = saved(file, settings)
    done = {(record["id"], record["dtype"]) for record in records}
    for dtype in options.dtypes:
        by_mode = writers(plain[dtype], load(dtype=dtype, optimize="packed"), options.modes)
        for group in track(groups, f"Writing in {dtype}", disable=not sys.stderr.isatty()):
            if all((prompt.id, dtype) in done for prompt in group):
                continue
            pairs = [(prompt, plain[dtype].encode(prompt.turns[0], chat=True)) for prompt in group]
            group_records = run_group(pairs, plain, by_mode, dtype, options.tokens)
            new = [{"settings": settings, **record} for record in group_records]
            with file.open("a") as out:
                out.writelines(json.dumps(record) + "\n" for record in new)
            records += new
    return records


def moves(options: argparse.Namespace) -> float:
    """Returns `moved` for a text of the demo prompts, in bfloat16."""
    target = make("target", options.target, dtype="bfloat16", optimize="packed")
    turns = [prompt.turns[0] for prompt in data.demo()[:3]]
    return moved(target, target.encode_turns(turns)[:64])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prompts", help="a JSONL data set; defaults to the demo prompts")
    parser.add_argument("--every", type=int, default=1, help="take every N-th prompt")
    parser.add_argument("--batches", type=int, help=f"the most batches, of {GROUP} prompts")
    parser.add_argument("--dtypes", nargs="*", default=DTYPES, choices=DTYPES)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--target", default="smollm2", help="a name, hub id or folder")
    parser.add_argument("--modes", nargs="*", default=MODES, choices=MODES)
    parser.add_argument("--page", type=Path, help="a page to put the table in")
    parser.add_argument("--results", type=Path, default=Path("outputs/precision.jsonl"))
    options = parser.parse_args()
    options.results.parent.mkdir(parents=True, exist_ok=True)
    records = run(options, options.results)
    lines = page_lines(records, moves(options))
    print(*lines, sep="\n")
    if options.page:
        write_page(options.page, "precision", lines)
    exact = [record for record in records if record["dtype"] == "float32"]
    sys.exit(any(any(record[name].values()) for record in exact for name in (REFERENCE, PLAIN)))


if __name__ == "__main__":
    main()
