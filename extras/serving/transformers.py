"""Speculation: any drafter and rule in place of the decoding loop of transformers' `generate`."""

import copy
import threading
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, final

import torch
from torch import Tensor
from transformers import StoppingCriteriaList, StopStringCriteria
from transformers.generation.utils import GenerateDecoderOnlyOutput

from outrider.base.errors import ConfigError
from outrider.base.terminal import QUIET, switched_on
from outrider.contract.chance import Chance, SampledChance
from outrider.contract.constraint import AllOf, Constraint
from outrider.contract.drafter import Drafter
from outrider.contract.policy import Policy
from outrider.contract.round import Round
from outrider.contract.sampling import Sampling
from outrider.contract.verifier import Verifier
from outrider.decoding.decode import decode, decode_together
from outrider.decoding.generation import Generation
from outrider.extras.serving.generate_call import Call, Request, overruled, unwarped
from outrider.plugins.parts import make
from outrider.targets.transformers import TransformersTarget


@final
class Speculation:
    """Speculative decoding as a `custom_generate` of transformers 5.23.

    >>> model.generate(**inputs, custom_generate=Speculation("prompt_lookup", gamma=4))

    The text is that of `outrider.generate`, and its tokens follow the distribution of `generate`
    itself: logits processors are applied at each position of a draft with the text before it,
    stopping criteria are asked after each token, and a streamer gets each token once.

    `generate` hands neither its `streamer` nor its `stop_strings` to a callable: it ignores the one
    and refuses the other. The method `generate` below, and `attach`, take both.

    drafter: a name or an instance; opened once for each row.
    verifier: a name or an instance.
    gamma, budget: as for `outrider.decode`.
    policy: a name or an instance; each row gets a copy of it.
    chance: makes all random decisions; each call and each row has a stream of its own.
        Defaults to one for each call, with a seed from torch's global generator, so that
        `torch.manual_seed` makes texts repeatable.
    tokenizer: for drafters and constraints that need one.
    constraint: what every row must follow, such as `outrider.regex(...)`. It comes after the logits
        processors; the output's `scores` are those before it. Defaults to none.
    generations: counts, rounds and times of the last call, one `Generation` per row.

    Threads may share an instance: its calls run one after another, and `generations` is that of the
    latest.

    A call raises `ConfigError`, which is a `ValueError`, if it asks for what drafts rule out.
    """

    def __init__(  # noqa: PLR0913  the parts and settings of a run, by name
        self,
        drafter: Drafter | str = "prompt_lookup",
        verifier: Verifier | str = "token",
        *,
        gamma: int = 5,
        budget: int | None = None,
        policy: Policy | str = "fixed",
        chance: Chance | None = None,
        tokenizer: Any = None,
        constraint: Constraint | None = None,
    ) -> None:
        self.generations: list[Generation] = []
        self._verifier: Verifier = make("verifier", verifier)
        self._drafter: Drafter = make("drafter", drafter)
        self._policy: Policy = make("policy", policy)
        self._lengths: dict[str, Any] = {"gamma": gamma, "budget": budget}
        self._chance = chance
        self._calls = 0
        self._tokenizer = tokenizer
        self._constraint = constraint
        self._target: TransformersTarget | None = None
        self._lock = threading.RLock()

    def generate(
        self,
        model: Any,
        *inputs: Any,
        streamer: Any = None,
        tokenizer: Any = None,
        stop_strings: Any = None,
        stopping_criteria: Any = None,
        **options: Any,
    ) -> Any:
        """Returns what `model.generate` returns, and takes all of its arguments.

        >>> Speculation("prompt_lookup").generate(model, **inputs, streamer=TextStreamer(tokenizer))

        The streamer ends whatever happens, so that a thread that reads it does not wait for ever.
        Settings that have no effect here, such as `assistant_model`, are named in a warning.
        """
        config = options.get("generation_config") or model.generation_config
        if unused := overruled(options, config):
            warnings.warn(f"no effect beside a Speculation: {', '.join(unused)}", stacklevel=2)
        options.pop("custom_generate", None)
        strings = stop_strings or config.stop_strings
        if strings is not None and tokenizer is not None:
            criterion = StopStringCriteria(tokenizer, strings)
            stopping_criteria = StoppingCriteriaList([*(stopping_criteria or ()), criterion])
            strings = None
        if strings != config.stop_strings:
            options["stop_strings"] = strings
        # transformers itself streams the prompt; the rest is up to the callable. `type(model)`
        # since `attach` puts this method in the place of the model's own.
        try:
            return type(model).generate(
                model,
                *inputs,
                streamer=streamer,
                stopping_criteria=stopping_criteria,
                custom_generate=partial(self, streamer=streamer),
                **options,
            )
        finally:
            if streamer is not None:
                streamer.end()

    def __call__(
        self,
        model: Any,
        input_ids: Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        *,
        streamer: Any = None,
        **inputs: Any,
    ) -> Tensor | GenerateDecoderOnlyOutput:
        """Returns what `generate` returns: the texts with their prompts, or an output with them.

        streamer: is handed the tokens; the method `generate` ends it.
        """
        call = Call(
            model,
            input_ids,
            logits_processor,
            stopping_criteria,
            generation_config,
            inputs,
            streamer,
        )
        call.check()
        with self._lock:
            return self._answer(call)

    def _answer(self, call: Call) -> Tensor | GenerateDecoderOnlyOutput:
        rest, sampling = unwarped(call.processors, call.config.do_sample)
        rows = [Request(call, number, rest) for number in range(call.rows)]
        self.generations = [Generation() for _ in rows]
        for number, round in self._rounds(call, rows, sampling):
            self.generations[number].add(round)
            if call.streamer is not None:
                for token in round.tokens:
                    call.streamer.put(torch.tensor([token]))
        texts = [generation.tokens for generation in self.generations]
        sequences = padded(call.input_ids, texts, call.config)
        if not call.returns_dict:
            return sequences
        scores: Any = rows[0].scores if call.config.output_scores else None
        logits: Any = rows[0].raw_logits if call.config.output_logits else None
        return GenerateDecoderOnlyOutput(sequences, scores, logits)  # type: ignore[arg-type]

    def _rounds(
        self, call: Call, rows: Sequence[Request], sampling: Sampling
    ) -> Iterator[tuple[int, Round]]:
        """Yields the rounds of all rows, each with the number of its row."""
        parts = (self._bound(call.model, rows[0].eos), self._drafter, self._verifier)
        chances = self._chances(len(rows), sampling)
        extra = () if self._constraint is None else (self._constraint,)
        constraints = [AllOf(row, *extra) for row in rows]
        options = self._lengths | {"sampling": sampling, "max_new_tokens": call.max_new_tokens}
        if len(rows) > 1:
            return decode_together(
                *parts,
                [row.prompt for row in rows],
                policies=[copy.deepcopy(self._policy) for _ in rows],
                chances=chances,
                constraints=constraints,
                **options,
            )
        rounds = decode(
            *parts,
            rows[0].prompt,
            policy=self._policy,
            chance=chances[0],
            constraint=constraints[0],
            **options,
        )
        return ((0, round) for round in rounds)

    def _chances(self, count: int, sampling: Sampling) -> list[Chance]:
        if self._chance is not None:
            call = self._chance.named(f"call {self._calls}")
            self._calls += 1
            return [call.named(f"row {row}") for row in range(count)]
        # A greedy text draws nothing, so it leaves the global generator alone.
        seed = 0 if sampling.greedy else int(torch.randint(2**63 - 1, ()))
        return [SampledChance.seeded(seed, row) for row in range(count)]

    def _bound(self, model: Any, eos: frozenset[int]) -> TransformersTarget:
        """Returns the target that wraps a model; a new one only if the model has changed."""
        if self._target is None or self._target.model is not model:
            with switched_on(QUIET, wanted=True):  # `generate` applies the model's defaults itself
                self._target = TransformersTarget(
                    model, self._tokenizer, generation_config="ignore"
                )
        self._target.eos = eos
        self._target.max_length = None  # the stopping criteria say where a text ends
        return self._target


def attach(model: Any, speculation: Speculation) -> None:
    """Makes every call of `model.generate` speculate, those of pipelines included.

    `del model.generate` undoes it.

    >>> attach(pipe.model, Speculation("prompt_lookup", gamma=4))
    """
    model.generate = partial(speculation.generate, model)


def padded(input_ids: Tensor, texts: Sequence[Sequence[int]], config: Any) -> Tensor:
    """Returns the prompts followed by their texts, padded on the right to one length.

    Raises `ConfigError` if the texts differ in length and there is no padding id.
    """
    width = max(map(len, texts))
    pad = config._pad_token_tensor
    if pad is None and min(map(len, texts)) < width:
        raise ConfigError("pad_token_id=None: expected an id, the rows end at different lengths")
    fill = 0 if pad is None else int(pad)
    filled = [[*text, *[fill] * (width - len(text))] for text in texts]
    return torch.cat((input_ids, torch.tensor(filled, device=input_ids.device)), dim=-1)
