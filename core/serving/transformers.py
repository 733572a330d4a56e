"""Speculation: any drafter and rule in the place of the loop of transformers' own `generate`."""

import copy
import sys
from collections.abc import Iterator, Sequence
from typing import Any, final

import torch
from torch import Tensor
from transformers import StoppingCriteriaList, StopStringCriteria
from transformers.generation.utils import GenerateDecoderOnlyOutput

from outrider.contract.chance import Chance, SampledChance
from outrider.contract.drafter import Drafter
from outrider.contract.policy import Policy
from outrider.contract.round import Round
from outrider.contract.sampling import Sampling
from outrider.contract.verifier import Verifier
from outrider.decoding.decode import decode, decode_together, prepare
from outrider.decoding.generation import Generation
from outrider.errors import ConfigError
from outrider.plugins.registry import make
from outrider.serving.row import Row, unwarped
from outrider.targets.transformers import TransformersTarget

KNOWN = frozenset({"attention_mask", "position_ids", "past_key_values", "logits_to_keep"})
KNOWN |= {"use_cache", "output_attentions", "output_hidden_states", "streamer"}
"""What `generate` hands over and is seen to here."""


@final
class Speculation:
    """What a model's `generate` calls in place of its loop (transformers 5.23).

    >>> model.generate(**inputs, custom_generate=Speculation("prompt_lookup", gamma=4))

    The text is that of `outrider.generate`, and the distribution of its tokens that of `generate` itself:
    logits processors are applied to each place of a draft with the text before it, stopping
    criteria are asked after each token, and a streamer gets each token once.

    drafter: a name or an instance; each row has a fork of it.
    verifier: a name or an instance.
    gamma, budget: as for `outrider.decode`.
    policy: a name or an instance; each row has a copy of it.
    chance: of all decisions; torch's own generator unless told, so that `torch.manual_seed` holds.
    tokenizer: for drafters that need one.
    generations: of the last call, one a row: counts, rounds and times.

    Raises `ConfigError`, which is a `ValueError`, at a call for what can't be had.
    """

    def __init__(
        self,
        drafter: Drafter | str = "prompt_lookup",
        verifier: Verifier | str = "token",
        *,
        gamma: int = 5,
        budget: int | None = None,
        policy: Policy | str = "fixed",
        chance: Chance | None = None,
        tokenizer: Any = None,
    ) -> None:
        self.generations: list[Generation] = []
        self._verifier: Verifier = make("verifier", verifier)
        self._drafter: Drafter = make("drafter", drafter)
        self._lookahead: Policy = make("policy", policy)
        self._lengths: dict[str, Any] = {"gamma": gamma, "budget": budget}
        self._chance = chance
        self._tokenizer = tokenizer
        self._target: TransformersTarget | None = None

    def __call__(
        self,
        model: Any,
        input_ids: Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        **given: Any,
    ) -> Tensor | GenerateDecoderOnlyOutput:
        """Returns what `generate` returns: the rows with their prompts, or those in an output."""
        streamer = given.get("streamer") or _streamer()
        mask = given.get("attention_mask")
        mask = torch.ones_like(input_ids) if mask is None else mask
        refuse(model, mask, generation_config, given, streamer)
        rest, sampling = unwarped(logits_processor, generation_config.do_sample)
        keeps = bool(generation_config.return_dict_in_generate and told(generation_config))
        rows = [
            Row(number, input_ids, mask, rest, logits_processor, stopping_criteria, keeps)
            for number in range(len(input_ids))
        ]
        self.generations = [Generation() for _ in rows]
        longest = stopping_criteria.max_length - input_ids.shape[1]
        for number, round in self._rounds(model, rows, sampling, max(1, longest)):
            self.generations[number].add(round)
            for token in round.tokens if streamer is not None else ():
                streamer.put(torch.tensor([token]))
        if streamer is not None:
            streamer.end()
        text = padded(input_ids, [each.tokens for each in self.generations], generation_config)
        if not generation_config.return_dict_in_generate:
            return text
        return GenerateDecoderOnlyOutput(
            sequences=text,  # type: ignore[arg-type]
            scores=rows[0].scores if generation_config.output_scores else None,  # type: ignore[arg-type]
            logits=rows[0].kept if generation_config.output_logits else None,  # type: ignore[arg-type]
        )

    def _rounds(
        self, model: Any, rows: Sequence[Row], sampling: Sampling, max_new_tokens: int
    ) -> Iterator[tuple[int, Round]]:
        target = self._bound(model, rows[0].eos)
        chance = self._chance or SampledChance(torch.default_generator)
        options = self._lengths | {"sampling": sampling, "max_new_tokens": max_new_tokens}
        if len(rows) > 1:
            prepare(target, self._drafter, self._verifier)  # before it has forks
            return decode_together(
                target,
                [self._drafter.fork() for _ in rows],
                self._verifier,
                [row.prompt for row in rows],
                policies=[copy.deepcopy(self._lookahead) for _ in rows],
                chances=[chance] * len(rows),
                constraints=rows,
                **options,
            )
        alone = decode(
            target,
            self._drafter,
            self._verifier,
            rows[0].prompt,
            policy=self._lookahead,
            chance=chance,
            constraint=rows[0],
            **options,
        )
        return ((0, round) for round in alone)

    def _bound(self, model: Any, eos: frozenset[int]) -> TransformersTarget:
        if self._target is None or self._target.model is not model:
            self._target = TransformersTarget(model, self._tokenizer)
        self._target.eos = eos
        self._target.max_length = None  # the criteria say where a text ends
        return self._target


def attach(model: Any, speculation: Speculation) -> None:
    """Has every call of `model.generate` speculate, those of pipelines too; `del model.generate` ends it.

    >>> attach(pipe.model, Speculation("prompt_lookup", gamma=4))
    """

    def generate(
        *inputs: Any,
        tokenizer: Any = None,
        stop_strings: Any = None,
        stopping_criteria: Any = None,
        **options: Any,
    ) -> Any:
        config = options.get("generation_config") or model.generation_config
        strings = stop_strings or config.stop_strings
        if strings is not None and tokenizer is not None:
            # transformers asks for the tokenizer that it keeps from a callable (5.23).
            found = StopStringCriteria(tokenizer, strings)
            stopping_criteria = StoppingCriteriaList([*(stopping_criteria or ()), found])
            strings = None
        if strings != config.stop_strings:
            options["stop_strings"] = strings
        return type(model).generate(
            model,
            *inputs,
            stopping_criteria=stopping_criteria,
            custom_generate=speculation,
            **options,
        )

    model.generate = generate


def refuse(model: Any, mask: Tensor, config: Any, given: dict[str, Any], streamer: Any) -> None:
    """Raises `ConfigError` for what `generate` was asked for and can't be had with drafts."""
    line, rows, places = None, len(mask), given.get("position_ids")
    usual = (mask.long().cumsum(-1) - 1).masked_fill(mask == 0, 0)
    others = sorted(
        name for name, value in given.items() if name not in KNOWN and value is not None
    )
    full = config.return_dict_in_generate
    if model.config.is_encoder_decoder:
        line = f"model {type(model).__name__}: expected a decoder-only one"
    elif (config.num_beams or 1) > 1:
        line = f"num_beams={config.num_beams}: expected 1 (there is outrider.beam_search)"
    elif getattr(given.get("past_key_values"), "_is_user_defined", False):
        line = "past_key_values: expected none, a text is read from its beginning"
    elif others:
        line = f"{others[0]}: expected none, the model is given tokens alone"
    elif places is not None and not torch.equal(places.expand_as(usual), usual):
        line = "position_ids: expected none, or those of the attention mask"
    elif full and (config.output_attentions or config.output_hidden_states):
        line = "output_attentions, output_hidden_states: expected false, passes hold drafts too"
    elif full and told(config) and rows > 1:
        line = f"output_scores, output_logits with {rows} rows: expected one, each ends by itself"
    elif streamer is not None and rows > 1:
        line = f"streamer with {rows} rows: expected one"
    if line is not None:
        raise ConfigError(line)


def told(config: Any) -> bool:
    """Returns whether `generate` is to tell of the places of the tokens."""
    return bool(config.output_scores or config.output_logits)


def padded(input_ids: Tensor, texts: Sequence[Sequence[int]], config: Any) -> Tensor:
    """Returns the prompts with their texts behind them, filled up with the padding's id.

    Raises:
        ConfigError: they differ in length, and there is no such id.
    """
    width = max(map(len, texts))
    pad = config._pad_token_tensor
    if pad is None and min(map(len, texts)) < width:
        raise ConfigError("pad_token_id=None: expected an id, the rows end at different lengths")
    filled = [
        [*text, *[int(pad)] * (width - len(text))] if len(text) < width else list(text)
        for text in texts
    ]
    return torch.cat((input_ids, torch.tensor(filled, device=input_ids.device)), dim=-1)


def _streamer() -> Any:
    """Returns the streamer of the `generate` that calls: it hands none to a callable (5.23)."""
    return sys._getframe(2).f_locals.get("streamer")
