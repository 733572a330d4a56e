"""`outrider generate`: one text, streamed, each token coloured by who wrote it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from rich.console import Console
from rich.text import Text

from outrider.base.errors import described
from outrider.base.folders import claimed, write_whole
from outrider.base.interruption import advising
from outrider.base.terminal import is_quiet, plain, print_json, remark, remarks, results, visible
from outrider.cli.screen import STYLES, legend
from outrider.cli.settings import Generate
from outrider.contract.constraint import AllOf, Constraint
from outrider.contract.round import Round
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.data.prompts import prompt_text
from outrider.decoding.calls import encoded
from outrider.decoding.decode import decode, decode_together, prepare
from outrider.decoding.generation import Generation, with_seed
from outrider.decoding.kinds import refuse_lossy
from outrider.lab.runs.files import stamp
from outrider.lab.runs.identity import certify
from outrider.plugins.config import build
from outrider.plugins.reading import plain_values
from outrider.plugins.registry import installed

OPTIONS = (
    "gamma", "budget", "max_new_tokens", "stop", "stop_token_ids", "draft_timeout", "logprobs",
    "lossy",
)  # fmt: skip
"""The settings that decoding takes as they are."""


def generate(settings: Generate) -> float | None:
    """Streams the text to stdout and writes `generation.json` in Hydra's run dir.

    Returns the tokens per call, for a sweeper to make larger; None for a batch.
    """
    console, prompt = results(soft_wrap=True), settings.prompt
    path = Path(HydraConfig.get().runtime.output_dir) / "generation.json"
    options: dict[str, Any] = {name: getattr(settings, name) for name in OPTIONS}
    options["sampling"] = with_seed(build(settings.sampling))
    is_batch = isinstance(prompt, list) and any(isinstance(item, str) for item in prompt)
    earlier = stamp(path.parent, path.name)
    with claimed(path.parent), advising(lambda: _advice(path, earlier)):
        if is_batch:
            _generate(settings, prompt, console, path, options)
            return None
        texts = _generate(settings, [prompt_text(prompt)], console, path, options, streams=True)
        return texts[0].counts.block_efficiency


def _advice(path: Path, earlier: object) -> str | None:
    if stamp(path.parent, path.name) == earlier:  # this run has written nothing
        return None
    return f"{path} has what was written; the same command starts over, in another folder"


def _generate(  # noqa: PLR0917
    settings: Generate,
    prompts: Sequence[Any],
    console: Console,
    path: Path,
    options: dict[str, Any],
    streams: bool = False,
) -> list[Generation]:
    """Writes the texts of several prompts in one batch, and prints them at the end.

    Whenever a text ends, all texts are saved as far as they are written.

    streams: whether it is a single text, which is printed as it comes.
    """
    verifier, drafter = build(settings.verifier), build(settings.drafter)
    policies = [build(settings.policy) for _ in prompts]
    target = build(settings.target)  # which takes longest
    ids = [encoded(target, prompt, chat=settings.chat) for prompt in prompts]
    constraint, parts = _constraint(settings), (target, drafter, verifier)
    rounds: Iterable[tuple[int, Round]]
    if streams:
        options |= {"policy": policies[0], "constraint": constraint}
        rounds = ((0, round) for round in decode(*parts, ids[0], **options))
    else:
        prepare(*parts)  # so that a misfit is told before anything is printed
        constraints = None if constraint is None else [constraint] * len(prompts)
        rounds = decode_together(*parts, ids, policies=policies, constraints=constraints, **options)
    _certify(settings, path.parent, target, verifier)
    seed = options["sampling"].seed
    generations, fault = [Generation(seed=seed) for _ in prompts], None

    def save() -> str:
        reports = [plain_report(text, verifier.lossless, fault) for text in generations]
        content = json.dumps(reports[0] if streams else reports, indent=1)
        write_whole(path, content)
        return content

    try:
        for number, round in rounds:
            generations[number].add(round)
            has_text = target.tokenizer is not None
            pieces = round.pieces if has_text else [f"{token} " for token in round.tokens]
            for piece, origin in zip(pieces, round.origins, strict=True) if streams else ():
                console.print(plain(piece, STYLES[origin]), end="")
            if round.stop is not None and not streams:
                save()
    except BaseException as error:
        fault = described(error)
        raise
    finally:  # an interrupted run leaves what it wrote, and so does one that can't print it
        try:
            if streams:
                console.print("" if is_quiet() else "\n")
            for prompt, generation in zip(prompts, generations, strict=True):
                if not streams:
                    console.rule(plain(prompt), align="left")
                    pairs = [zip(it.pieces, it.origins, strict=True) for it in generation.rounds]
                    text = [(visible(piece), STYLES[by]) for piece, by in chain(*pairs)]
                    console.print(Text.assemble(*text), soft_wrap=not console.is_terminal)
                remarks(stderr=False).print(plain(generation.summary))
            words_of = legend() if verifier.lossless else Text("LOSSY rule  ").append(legend())
            remarks(stderr=False).print(words_of)
        finally:
            content = save()
        print_json(content)
        remark(path, stderr=False)
    return generations


def _certify(settings: Generate, folder: Path, target: Target, verifier: Verifier) -> None:
    if settings.lossy == "refuse":
        refuse_lossy(target=target, verifier=verifier, policy=build(settings.policy))
        roles = ("drafter", "verifier", "policy")
        parts = plain_values({role: getattr(settings, role) for role in roles})
        certify(folder, target, {"": parts})


def _constraint(settings: Generate) -> Constraint | None:
    """Returns the penalties and the grammar of the settings as one constraint; None for neither."""
    penalties = installed().find("constraint", "penalties").factory(**settings.penalties)
    grammar = None if settings.constraint is None else build(settings.constraint)
    if grammar is None or penalties.change_nothing:
        return grammar if penalties.change_nothing else penalties
    return AllOf(penalties, grammar)


def plain_report(generation: Generation, lossless: bool, fault: str | None) -> dict[str, Any]:
    """Returns the content of `generation.json`."""
    return {
        "text": generation.text,
        "tokens": generation.tokens,
        "logprobs": [asdict(logprob) for logprob in generation.logprobs],
        "counts": asdict(generation.counts),
        "rounds": [asdict(round) for round in generation.rounds],
        "seconds": generation.seconds,
        "stop": generation.stop,
        "seed": generation.seed,
        "lossless": lossless,
        "error": fault,
    }
