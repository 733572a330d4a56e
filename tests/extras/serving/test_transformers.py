"""Inside transformers' `generate`: its own texts and distributions, whatever the drafter."""

import threading
from dataclasses import replace
from typing import Any

import pytest
import tokenizers
import torch
from tiny.exact import assert_follows
from transformers import (
    EosTokenCriteria,
    GenerationConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteria,
    StoppingCriteriaList,
    StopStringCriteria,
    pipeline,
)

import outrider
from outrider import ConfigError, Context, Drafter, OutriderError, Pen, SampledChance, Sampling
from outrider.drafters.ngram import bigram
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.drafters.random import Random
from outrider.drafters.small_lm import SmallLM
from outrider.extras.serving.transformers import Speculation, attach
from outrider.targets.passes.pass_input import cache_argument
from outrider.targets.transformers import TransformersTarget

CACHE = cache_argument(LlamaForCausalLM.forward)
PROMPTS = ([5, 6, 7, 5, 6], [2], [20, 21, 22, 23, 20, 21, 22])
PROCESSED = (
    {}, {"repetition_penalty": 1.3, "sequence_bias": [[[19], -4.0], [[8, 20], 3.0]]},
    {"encoder_repetition_penalty": 1.5, "min_new_tokens": 20},
    {"prefix_allowed_tokens_fn": lambda row, ids: [(int(ids[-1]) + row + 2) % 31, 7, 8]},
    {"renormalize_logits": True, "remove_invalid_values": True, "forced_eos_token_id": 1},
)  # fmt: skip


@pytest.fixture(scope="module")
def letters() -> Any:
    """A tokenizer with one token for each letter: stop strings need one that knows any text."""
    symbols = ["?", "<eos>", *"abcdefghijklmnopqrstuvwxyz ,."]
    ids = {symbol: i for i, symbol in enumerate(symbols)}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(ids, [], unk_token="?"))
    backend.decoder = tokenizers.decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<eos>", pad_token="<eos>")


class Streamer:
    """Remembers what it is handed."""

    def __init__(self) -> None:
        self.handed: list[list[int]] = []
        self.ended = 0

    def put(self, value: torch.Tensor) -> None:
        self.handed.append(value.tolist())

    def end(self) -> None:
        self.ended += 1


def rows(*prompts: list[int]) -> dict[str, torch.Tensor]:
    """The inputs of several prompts, padded on the left."""
    width = max(map(len, prompts))
    ids = torch.tensor([[1] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("options", PROCESSED, ids=lambda options: " ".join(options) or "none")
def test_greedy_texts_alone_and_in_a_batch_are_generates_own(
    llama: Any, options: dict[str, Any]
) -> None:
    model = llama()
    shared = options | {"max_new_tokens": 24, "do_sample": False}
    many = [
        Speculation("prompt_lookup", gamma=4),
        Speculation(bigram(tree="2x2"), "traversal", gamma=3, budget=6),
        Speculation(SmallLM(model=llama(eos_token_id=None)), gamma=3),
    ]
    for prompts in (*([prompt] for prompt in PROMPTS), PROMPTS):
        own = model.generate(**rows(*prompts), **shared)
        for fast in many:
            text = model.generate(**rows(*prompts), **shared, custom_generate=fast)
            assert torch.equal(text, own)
    ends = [(row[7:] == 1).nonzero() for row in own]
    for generation, end in zip(many[0].generations, ends, strict=True):
        assert len(generation.tokens) == (int(end[0]) + 1 if len(end) else 24)


@pytest.mark.parametrize("name", ["prompt_lookup", "bigram"])
@pytest.mark.parametrize(
    ("sampling", "options"),
    [
        (Sampling(1.0, seed=5), {"do_sample": True, "top_k": 0}),
        (
            Sampling(0.7, 8, 0.9, 0.02, seed=6),
            {"do_sample": True, "temperature": 0.7, "top_k": 8, "top_p": 0.9, "min_p": 0.02},
        ),
    ],
)
def test_the_text_is_outriders_with_a_seed_from_torchs_generator(
    llama: Any, name: str, sampling: Sampling, options: dict[str, Any]
) -> None:
    model, fast = llama(), Speculation(name, gamma=3)
    for prompt in PROMPTS:
        target = TransformersTarget(model)
        torch.manual_seed(sampling.seed or 0)
        drawn = replace(sampling, seed=int(torch.randint(2**63 - 1, ())))
        expected = outrider.generate(
            target, prompt, name, gamma=3, sampling=drawn, max_new_tokens=40
        )
        torch.manual_seed(sampling.seed or 0)
        text = model.generate(**rows(prompt), **options, max_new_tokens=40, custom_generate=fast)
        assert text[0, len(prompt) :].tolist() == expected.tokens
        assert fast.generations[0].counts == expected.counts


@pytest.mark.parametrize(
    ("drafter", "rule", "budget"),
    [(bigram, "token", None), (Random, "block", None), (lambda: Random("iid:2"), "multi_step", 2)],
)
def test_the_distribution_is_generates_own_to_the_last_bit(
    llama: Any, drafter: Any, rule: str, budget: int | None
) -> None:
    model = llama(vocab_size=3, eos_token_id=None, pad_token_id=None).double()
    inputs = rows([0, 1, 0])
    options = {"do_sample": True, "temperature": 0.8, "top_p": 0.95, "repetition_penalty": 1.4}

    def play(chance: Any) -> tuple[int, ...]:
        fast = Speculation(drafter(), rule, gamma=2, budget=budget, chance=chance)
        text = model.generate(**inputs, **options, top_k=0, max_new_tokens=3, custom_generate=fast)
        return tuple(text[0, 3:].tolist())

    @torch.no_grad()
    def logits(text: tuple[int, ...]) -> torch.Tensor:
        ids = torch.tensor([[0, 1, 0, *text]])
        return RepetitionPenaltyLogitsProcessor(1.4)(ids, model(ids).logits[:, -1])[0]

    assert_follows(play, logits, 3, Sampling(0.8, top_p=0.95))


def test_samples_differ_from_call_to_call_and_from_row_to_row(llama: Any) -> None:
    model, fast = llama(), Speculation("prompt_lookup")
    options = {"do_sample": True, "max_new_tokens": 30, "custom_generate": fast}
    torch.manual_seed(0)
    first = model.generate(**rows([5, 6]), num_return_sequences=3, **options)
    again = model.generate(**rows([5, 6]), num_return_sequences=3, **options)
    texts = {tuple(row.tolist()) for row in (*first, *again)}
    assert first.shape[0] == 3
    assert len(texts) == 6
    torch.manual_seed(0)
    assert torch.equal(model.generate(**rows([5, 6]), num_return_sequences=3, **options), first)


def test_a_chance_of_ones_own_serves_every_call_and_row_anew(llama: Any) -> None:
    model, runs = llama(), []
    for _ in range(2):
        fast = Speculation("prompt_lookup", chance=SampledChance.seeded(3))
        options = {"do_sample": True, "max_new_tokens": 30, "custom_generate": fast}
        texts = [model.generate(**rows([5, 6]), num_return_sequences=2, **options) for _ in "12"]
        runs.append([tuple(row.tolist()) for text in texts for row in text])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 4


def test_a_streamer_is_handed_each_token_once(llama: Any) -> None:
    model = llama()
    for drafter in (PromptLookup(), SmallLM(model=llama())):
        streamer, fast = Streamer(), Speculation(drafter, gamma=4)
        text = fast.generate(model, **rows([3, 4]), max_new_tokens=23, streamer=streamer)
        assert streamer.handed[0] == [[3, 4]]  # the prompt, from `generate` itself
        assert streamer.handed[1:] == [[token] for token in text[0, 2:].tolist()]
        assert streamer.ended == 1


class Fragile(Drafter):
    """Fails after the third token."""

    def propose(self, context: Context, pen: Pen) -> None:
        if len(context.tokens) > 5:
            raise RuntimeError("bad luck")


@pytest.mark.parametrize(("drafter", "beams"), [(Fragile(), 1), (PromptLookup(), 2)])
def test_a_streamer_ends_when_a_drafter_fails_or_a_call_is_refused(
    drafter: Drafter, beams: int, llama: Any
) -> None:
    streamer = Streamer()
    options = {"max_new_tokens": 20, "num_beams": beams, "streamer": streamer}
    with pytest.raises(OutriderError, match=r"bad luck|num_beams"):
        Speculation(drafter).generate(llama(), **rows([3, 4]), **options)
    assert streamer.ended == 1


def test_settings_that_an_attached_drafter_overrules_are_named(llama: Any) -> None:
    model, options = llama(), {"max_new_tokens": 9, "do_sample": False}
    own = model.generate(**rows([3, 4]), **options)
    attach(model, Speculation("prompt_lookup"))
    expected = "no effect beside a Speculation: assistant_model, prompt_lookup_num_tokens=3"
    with pytest.warns(UserWarning, match=f"^{expected}$"):
        text = model.generate(
            **rows([3, 4]), **options, assistant_model=llama(), prompt_lookup_num_tokens=3
        )
    assert torch.equal(text, own)
    config = GenerationConfig(cache_implementation="static", **options)
    with pytest.warns(UserWarning, match="Speculation: cache_implementation='static'$"):
        model.generate(**rows([3, 4]), generation_config=config)


def test_criteria_are_asked_after_each_token(llama: Any, letters: Any) -> None:
    model, fast = llama(), Speculation(SmallLM(model=llama()), gamma=5)
    prompt = rows([3, 4])
    free = model.generate(**prompt, max_new_tokens=30)[0].tolist()
    stop = letters.decode(free[5:7])

    class Long(StoppingCriteria):
        def __call__(self, input_ids: Any, scores: Any, **options: Any) -> Any:
            return torch.tensor([len(row) >= 9 for row in input_ids])

    for criterion in (StopStringCriteria(letters, [stop]), EosTokenCriteria(free[8]), Long()):
        options = {"max_new_tokens": 30, "stopping_criteria": StoppingCriteriaList([criterion])}
        own = model.generate(**prompt, **options)
        assert own.shape[1] < 32
        assert torch.equal(model.generate(**prompt, **options, custom_generate=fast), own)
    timed = model.generate(**prompt, max_new_tokens=30, max_time=0.0, custom_generate=fast)
    assert timed.shape[1] == 3
    total = model.generate(**prompt, max_length=8, custom_generate=fast)
    assert total[0].tolist() == free[:8]


def test_scores_and_logits_of_each_token_are_returned(llama: Any) -> None:
    model, fast = llama(), Speculation(bigram(tree="2x1"), "traversal", gamma=4, budget=6)
    options = {
        "max_new_tokens": 20, "repetition_penalty": 1.2, "return_dict_in_generate": True,
        "output_scores": True, "output_logits": True, "do_sample": True, "temperature": 0.7,
        "top_k": 5,
    }  # fmt: skip
    torch.manual_seed(1)
    result = model.generate(**rows([5, 6, 5]), **options, custom_generate=fast)
    text = result.sequences[0].tolist()
    penalty = RepetitionPenaltyLogitsProcessor(1.2)
    assert len(result.scores) == len(result.logits) == len(text) - 3
    for position, (scores, logits) in enumerate(zip(result.scores, result.logits, strict=True)):
        before = torch.tensor([text[: 3 + position]])
        with torch.no_grad():
            expected = model(before).logits[:, -1]
        torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)
        probs = Sampling(0.7, 5).probs(penalty(before, expected))
        torch.testing.assert_close(scores.softmax(-1), probs, atol=1e-4, rtol=1e-4)


def test_an_attached_model_speculates_in_every_call(llama: Any, letters: Any) -> None:
    model, fast = llama(), Speculation(SmallLM(model=llama()), gamma=4)
    free = model.generate(**rows([3, 4]), max_new_tokens=30)[0].tolist()
    stop = {"stop_strings": [letters.decode(free[5:7])], "tokenizer": letters, "max_new_tokens": 30}
    own = model.generate(**rows([3, 4]), **stop)
    assert own.shape[1] < 32
    attach(model, fast)
    streamer = Streamer()
    assert torch.equal(model.generate(**rows([3, 4]), **stop, streamer=streamer), own)
    assert len(streamer.handed) == own.shape[1] - 1
    assert fast.generations[0].counts.accepted > 0
    config = GenerationConfig(stop_strings=stop["stop_strings"], max_new_tokens=30)
    text = model.generate(**rows([3, 4]), generation_config=config, tokenizer=letters)
    assert torch.equal(text, own)
    with pytest.raises(ValueError, match="could not locate a tokenizer"):
        model.generate(**rows([3, 4]), stop_strings=stop["stop_strings"], max_new_tokens=30)
    before = list(fast.generations)
    del model.generate
    assert torch.equal(model.generate(**rows([3, 4]), **stop), own)
    assert fast.generations == before


def test_pipelines_speculate(llama: Any, letters: Any) -> None:
    model, fast = llama(), Speculation("prompt_lookup", gamma=4)
    pipe = pipeline("text-generation", model=model, tokenizer=letters)
    options = {"max_new_tokens": 20, "do_sample": False}
    own = pipe(["the cat", "one"], **options)
    assert pipe(["the cat", "one"], **options, custom_generate=fast) == own
    stop = {"stop_sequence": own[0][0]["generated_text"][12:14]}
    short = pipe("the cat", **options, **stop)
    assert len(short[0]["generated_text"]) < len(own[0][0]["generated_text"])
    attach(pipe.model, fast)
    assert pipe(["the cat", "one"], **options, batch_size=2) == own
    assert len(fast.generations) == 2
    assert pipe("the cat", **options, **stop) == short


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"num_beams": 2}, "num_beams=2: expected 1"),
        ({"guidance_scale": 1.5}, "logits processor UnbatchedClassifierFree"),
    ],
)
def test_settings_that_drafts_rule_out_are_refused(
    llama: Any, options: dict[str, Any], line: str
) -> None:
    model, fast = llama(), Speculation("prompt_lookup")
    with pytest.raises(ConfigError, match=f"^{line}"):
        model.generate(**rows([3, 4]), max_new_tokens=4, **options, custom_generate=fast)


def test_threads_share_one(llama: Any) -> None:
    model, fast = llama(), Speculation(SmallLM(layers=2), gamma=3)
    texts: dict[int, Any] = {}

    def text(number: int, **options: Any) -> Any:
        options |= {"do_sample": False, "max_new_tokens": 24}
        return model.generate(**rows(PROMPTS[number]), **options)[0].tolist()

    def call(number: int) -> None:
        for _ in range(4):
            texts[number] = text(number, custom_generate=fast)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(len(PROMPTS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {number: text(number) for number in texts} and len(texts) == len(PROMPTS)
