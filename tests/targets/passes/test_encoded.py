"""An encoder-decoder's passes: exact after any history, the source read once."""

import random
from typing import Any

import pytest
import torch
from tiny.drafters import bound, tokens_of
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    MT5Config,
    MT5ForConditionalGeneration,
    UMT5Config,
    UMT5ForConditionalGeneration,
)

from outrider import ConfigError, Draft, SampledChance, Sampling, TargetError, Verdict, decode
from outrider.decoding.batches.batch_target import BatchTarget
from outrider.decoding.batches.batched import batched
from outrider.drafters.ngram import NGram
from outrider.plugins.registry import make
from outrider.targets.passes.cached_model import CachedModel
from outrider.targets.transformers import TransformersTarget
from outrider.testing import Setup, loop_distribution, target_distribution
from outrider.verifiers.token import Token

SOURCE = [5, 6, 7, 8, 9, 5, 6, 4, 3, 1]
OF_T5 = {
    "vocab_size": 31, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2,
    "initializer_factor": 3.0, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1,
}  # fmt: skip
OF_BART = {
    "vocab_size": 31, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32, "max_position_embeddings": 64, "init_std": 0.5, "pad_token_id": 1,
    "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip
KINDS: dict[str, tuple[type[Any], type[Any], dict[str, Any]]] = {
    "mt5": (MT5ForConditionalGeneration, MT5Config, OF_T5),
    "umt5": (UMT5ForConditionalGeneration, UMT5Config, OF_T5),
    "bart": (BartForConditionalGeneration, BartConfig, OF_BART),
    "bart, forced": (
        BartForConditionalGeneration,
        BartConfig,
        OF_BART | {"forced_bos_token_id": 0},
    ),
}


@pytest.fixture(params=["t5", *KINDS])
def model(request: pytest.FixtureRequest, t5: Any) -> Any:
    if request.param == "t5":
        return t5()
    kind, config, settings = KINDS[request.param]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(config(**settings)).eval()


def test_scores_after_any_history_are_those_of_a_whole_pass(model: Any) -> None:
    """Chains for all, and trees for those that take them; without a cache on the other side."""
    model = model.double()
    target = TransformersTarget(model)
    draw = random.Random(0)
    text, source = target.begin(SOURCE)
    assert source == SOURCE
    session = target.open(SOURCE)
    for turn in range(12):
        size = draw.randrange(8)
        chain = turn % 2 == 0 or not target.trees
        parents = tuple(i - 1 if chain else draw.randrange(-1, i) for i in range(size))
        draft = Draft(tuple(draw.randrange(31) for _ in range(size)), parents, (None,) * size)
        rows = session.score(draft)
        for node in range(-1, size):
            path = [draft.tokens[step] for step in draft.path(node)]
            with torch.no_grad():
                whole = model(
                    input_ids=torch.tensor([SOURCE]),
                    decoder_input_ids=torch.tensor([text + path]),
                    use_cache=False,
                ).logits[0, -1]
            # T5's norms round to float32 whatever the model's precision.
            torch.testing.assert_close(rows[node + 1], whole, rtol=1e-5, atol=1e-5)
        accepted = draft.path(draw.randrange(-1, size))
        session.commit(Verdict(accepted, 7))
        text += [*(draft.tokens[node] for node in accepted), 7]


def test_greedy_text_is_that_of_transformers(model: Any, scripted: Any) -> None:
    target = TransformersTarget(model)
    ids = torch.tensor([SOURCE])
    text = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=24
    )[0].tolist()
    start = len(target.begin(SOURCE)[0])
    names = ("none", "random", "prompt_lookup", "shallow_aggressive")
    drafters = [*(make("drafter", name) for name in names), scripted(text), scripted(text, 9)]
    for drafter in drafters:
        rounds = decode(target, drafter, Token(), SOURCE, gamma=4, max_new_tokens=25 - start)
        assert tokens_of(rounds) == text[start:]


def test_the_encoder_reads_the_source_once(model: Any, scripted: Any) -> None:
    calls: list[int] = []
    model.get_encoder().register_forward_hook(lambda *_: calls.append(1))
    target = TransformersTarget(model)
    calls.clear()  # of its self-test
    rounds = list(decode(target, scripted([3] * 30), Token(), SOURCE, max_new_tokens=20))
    assert len(rounds) > 2
    assert calls == [1]


def test_many_texts_at_once_are_those_one_by_one(model: Any) -> None:
    target = TransformersTarget(model)
    target.eos = frozenset(range(0, 31, 6))  # so that texts end one after another
    serving = batched(target)
    prompts = [SOURCE, SOURCE[:4], SOURCE[3:], [8]]
    for sampling in (Sampling(), Sampling(temperature=1.0)):
        written = [
            write(prompts, sampling, [SampledChance.seeded(seed) for seed in range(4)], 25)
            for write in (serving.write, lambda *given: BatchTarget.write(serving, *given))
        ]
        assert written[0] == written[1]
    assert len({len(text) for text in written[0]}) > 1


def test_trees_are_refused_with_the_reason_if_no_mask_can_tell_positions(model: Any) -> None:
    target = TransformersTarget(model)
    tree = NGram(tree="2x2")
    if target.trees:
        assert model.config.model_type in ("t5", "mt5")
        list(decode(target, tree, make("verifier", "traversal"), SOURCE, budget=6))
        return
    name = type(model).__name__
    with pytest.raises(ConfigError, match=f"NGram writes trees: {name} takes only chains, since"):
        decode(target, tree, make("verifier", "traversal"), SOURCE)


@pytest.mark.parametrize("drafter", ["bigram", "shallow_aggressive", "prompt_lookup"])
def test_the_distribution_of_the_text_is_the_targets(t5: Any, drafter: str) -> None:
    """Every branch of three tokens at temperature 1; what is left is T5's rounding to float32."""
    target = TransformersTarget(
        t5(vocab_size=3, eos_token_id=None, initializer_factor=1.0).double()
    )
    sampling, source = Sampling(temperature=1.0), [2, 0, 2, 1]
    part = bound(make("drafter", drafter), target)
    setup = Setup(target, part, Token(), source, gamma=2, sampling=sampling)
    probs = loop_distribution(setup, 3)
    exact = target_distribution(target, source, 3, sampling, Token())
    assert len(exact) == 27
    assert max(abs(probs.get(text, 0.0) - p) for text, p in exact.items()) < 1e-6
    assert sum(probs.values()) == pytest.approx(1.0, abs=1e-9)


def test_a_text_stops_at_the_decoders_last_position(model: Any) -> None:
    target = TransformersTarget(model)
    target.eos = frozenset()
    rounds = list(decode(target, make("drafter", "random"), Token(), SOURCE, max_new_tokens=80))
    start = len(target.begin(SOURCE)[0])
    longest = target.max_length or 80 + start
    assert sum(len(round.tokens) for round in rounds) == longest - start
    assert rounds[-1].stop == ("max_length" if target.max_length else "max_new_tokens")


def test_a_source_may_fill_the_encoder_and_no_more() -> None:
    target = TransformersTarget(BartForConditionalGeneration(BartConfig(**OF_BART)).eval())
    assert len(target.encode([5] * 64)) == 64
    list(decode(target, make("drafter", "none"), Token(), [5] * 64, max_new_tokens=2))
    with pytest.raises(
        ConfigError, match="65 tokens: expected no more than the context window of 64"
    ):
        target.encode([5] * 65)


def test_an_encoder_decoders_offers_and_fingerprint(t5: Any, words: Any) -> None:
    target = TransformersTarget(t5(), words)
    assert target.offers == {"source", "tokenizer"}
    assert (target.eos, target.vocab_size, target.max_length) == ({1}, 31, None)
    for name in ("medusa", "self_sparse", "small_lm"):
        with pytest.raises(ConfigError, match="the target offers source, tokenizer"):
            decode(target, make("drafter", name), Token(), SOURCE)
    other = t5(decoder_start_token_id=3)
    assert TransformersTarget(other).fingerprint() != target.fingerprint()


def without_start(model: Any) -> None:
    model.config.decoder_start_token_id = model.generation_config.decoder_start_token_id = None


def of_sounds(model: Any) -> None:
    model.main_input_name = "input_features"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (without_start, "expected decoder_start_token_id in its configuration"),
        (of_sounds, "reads input_features: expected one that reads text"),
    ],
)
def test_an_encoder_decoder_of_another_kind_is_refused(t5: Any, change: Any, line: str) -> None:
    model = t5()
    change(model)
    with pytest.raises(TargetError, match=line):
        TransformersTarget(model)


def test_a_source_and_an_encoder_go_together(t5: Any, llama: Any) -> None:
    with pytest.raises(TargetError, match="T5ForConditionalGeneration has an encoder, but"):
        CachedModel(t5())
    with pytest.raises(TargetError, match="LlamaForCausalLM has no encoder for the target's"):
        CachedModel(llama(), (), SOURCE)
