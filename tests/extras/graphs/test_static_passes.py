"""Compiled passes: the same scores on a cache of one shape, whatever is read, dropped and kept.

The graphs come from a compiler that runs anywhere; a GPU adds only speed.
"""

import copy
import gc
import math
import pickle
import weakref
from typing import Any

import pytest
import torch
from tiny.graph_replayer import GraphReplayer
from tiny.models import ENTRIES, build

from outrider import ConfigError, Draft, Verdict, decode
from outrider.drafters.eagle import Eagle
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.extras.graphs import static_cache
from outrider.extras.graphs.engines import CompiledPasses, RecordedPasses
from outrider.extras.graphs.recordings import Recorded
from outrider.extras.graphs.static_cache import StaticCache
from outrider.targets.passes.engine import note_engine, run_pass
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import PassInput
from outrider.targets.passes.recurrent import new_cache
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.recursive import Candidates
from outrider.verifiers.token import Token


@pytest.fixture(scope="module")
def plain(llama: Any) -> Any:
    """A target whose engine is transformers' modules."""
    sizes = {"num_key_value_heads": 2, "num_attention_heads": 4, "num_hidden_layers": 2}
    return TransformersTarget(llama(max_position_embeddings=400, **sizes))


def beside(plain: Any, compiler: Any) -> Any:
    """Returns a target, and the same one compiled."""
    model = copy.deepcopy(plain.model)
    engine = CompiledPasses(compiler)
    engine.prepare(model)
    note_engine(model, engine)
    return plain, TransformersTarget(model)


def assert_same_scores(targets: Any, prompt: list[int], rounds: Any, most: float) -> None:
    """Asserts that both targets score drafts alike, after the same verdicts."""
    sessions = [target.open(prompt, frozenset({"hidden_states.1"})) for target in targets]
    for draft, verdict in rounds:
        right, logits = (session.score(draft) for session in sessions)
        torch.testing.assert_close(logits, right, rtol=1e-4, atol=most)
        for session in sessions:
            session.commit(verdict)
        right, states = (session.features()["hidden_states.1"] for session in sessions)
        torch.testing.assert_close(states, right, rtol=1e-4, atol=1e-4)


TREE = Draft((6, 7, 8, 9), (-1, -1, 0, 1), (None,) * 4)


@pytest.fixture(scope="module")
def pair(plain: Any) -> Any:
    """A plain target, and the same one whose passes would be compiled."""
    return beside(plain, lambda function: function)


def test_one_graph_a_size_serves_every_round(plain: Any) -> None:
    graphs = []

    def counted(function: Any) -> Any:
        return torch.compile(
            function,
            fullgraph=True,
            dynamic=False,
            backend=lambda graph, _: graphs.append(graph) or graph,
        )

    _, target = beside(plain, counted)
    session = target.open([3] * 40)
    for drafted in (0, 3, 3, 2, 3, 3, 2, 3):
        session.score(Draft((5,) * drafted, tuple(range(-1, drafted - 1)), (None,) * drafted))
        session.commit(Verdict((), 4))
    assert len(graphs) == 1  # the prompt is read without one; then four rows, or three padded


def test_scores_are_those_of_the_plain_model(plain: Any) -> None:
    def graphs(function: Any) -> Any:
        return torch.compile(function, backend="eager", fullgraph=True, dynamic=False)

    chain = Draft((5, 6), (-1, 0), (None,) * 2)
    rounds = [
        (Draft(), Verdict((), 9)), (TREE, Verdict((1, 3), 2)), (chain, Verdict((0,), 3)),
        (TREE, Verdict((0, 2), 4)), (chain, Verdict((), 5)), (Draft(), Verdict((), 6)),
    ]  # fmt: skip
    assert_same_scores(beside(plain, graphs), [3, 4, 5], rounds, 1e-5)


@pytest.mark.parametrize(
    ("make", "rule"),
    [(PromptLookup, Token()), (lambda: Eagle(path="untrained", tree="top:2x2"), Candidates())],
)
@pytest.mark.parametrize("capacity", [16, 1024])
def test_texts_are_the_same_though_they_outgrow_their_buffers(
    make: Any, rule: Any, capacity: int, pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(static_cache, "CAPACITY", capacity)
    options: dict[str, Any] = {"gamma": 3, "budget": 6, "max_new_tokens": 40}
    texts = [
        [round.tokens for round in decode(target, make(), rule, [3, 4, 5, 3, 4], **options)]
        for target in pair
    ]
    assert texts[0] == texts[1]


def test_a_long_prompt_is_read_in_parts(pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, known = [], StaticCache.full_mask

    def full_mask(*arguments: Any) -> torch.Tensor:
        mask = known(*arguments)
        rows.append(mask.shape[2])
        return mask

    monkeypatch.setattr(StaticCache, "full_mask", full_mask)
    prompt = [3, 4, 5, 9] * 65  # the last part is no size of its own
    right, logits = (target.open(prompt).score(Draft()) for target in pair)
    torch.testing.assert_close(logits, right, rtol=1e-4, atol=1e-5)
    assert rows == [256, 4]


def test_texts_after_one_another_share_buffers_and_nothing_else(pair: Any) -> None:
    """A graph of a GPU is recorded for the addresses that it reads and writes."""
    _, target = pair
    found = []
    for length in (3, 6, 3):
        cache = new_cache(target.model)
        ids = torch.tensor([[3, 4, 5, 6, 7, 8][:length]])
        logits = run_pass(target.model, cache, PassInput(ids, 1)).logits
        found.append((logits.tolist(), [layer.keys.data_ptr() for layer in cache.layers]))
        if length == 6:
            cache.layers[0].values.fill_(math.nan)
        del cache
    assert found[0] == found[2]


@pytest.mark.parametrize("name", ["llama", "gemma3_text"])
def test_recorded_passes_write_the_texts_of_modules(name: str) -> None:
    """A sampled tree has passes of several sizes, and masks; a second text has other numbers."""
    model, texts, record = build(ENTRIES[name]), [], GraphReplayer()
    for is_recorded in (False, True):
        target = TransformersTarget(copy.copy(model), optimize="none")
        if is_recorded:
            engine = RecordedPasses(record)
            engine.prepare(target.model)
            note_engine(target.model, engine)
            assert engine.runs_by(target.model) == "CUDA graphs of transformers' modules"
        drafter = Eagle(path="untrained", tree="top:2x2")
        options: dict[str, Any] = {"gamma": 2, "budget": 6, "max_new_tokens": 12}
        texts.append(
            [
                [round.tokens for round in decode(target, drafter, Candidates(), prompt, **options)]
                for prompt in ([3, 4, 5], [6, 7, 8, 9, 3])
            ]
        )
    assert texts[0] == texts[1]
    assert 0 < record.recorded <= 6  # the trial's, then one a size of pass, for both texts


def test_a_model_that_has_run_is_freed_and_its_copies_run_by_modules(llama: Any) -> None:
    engine, model = RecordedPasses(GraphReplayer()), llama(num_hidden_layers=2)
    engine.prepare(model)
    note_engine(model, engine)
    copies = [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    texts = []
    for each in (model, *copies):
        target = TransformersTarget(each)
        rounds = decode(target, PromptLookup(), Token(), [3, 4, 3], gamma=2, max_new_tokens=9)
        texts.append([round.tokens for round in rounds])
        expected = StaticCache if each is model else GrowingCache
        assert isinstance(new_cache(each), expected)
        assert engine.layout(each) == ("graphs" if each is model else "plain")
    assert all(text == texts[0] for text in texts)
    gone = weakref.ref(model)
    del model, each, target, copies[0]  # the shallow copy, whose tensors are the model's own
    gc.collect()
    assert gone() is None


def test_graphs_want_a_gpu(llama: Any) -> None:
    line = r"^target.optimize='graphs': expected .*recorded on a GPU, and the model is on cpu"
    with pytest.raises(ConfigError, match=line):
        TransformersTarget(llama(), optimize="graphs")


@pytest.mark.parametrize("places", range(1, 7))
def test_few_texts_at_once_keep_their_recordings(places: int, plain: Any) -> None:
    record = GraphReplayer()
    passes = Recorded(static_cache.uncompiled(plain.model), record)
    caches = [StaticCache(plain.model, passes) for _ in range(places)]
    for _ in range(3):
        for cache in caches:
            cache.feed(PassInput(torch.tensor([[3, 4]]), 1))
    # The first pass of a text is its modules'.
    assert record.recorded == min(places, 4), "others run without"


@pytest.mark.parametrize("name", ["gpt2", "gemma3_text", "mixtral", "deepseek_v3"])
def test_other_architectures_have_the_scores_of_their_modules(name: str) -> None:
    """Learned places, two windows, experts, and keys of another width than values."""
    targets = beside(TransformersTarget(build(ENTRIES[name])), lambda function: function)
    rounds = [(TREE, Verdict((1, 3), 4)), (TREE, Verdict((0,), 5))]
    assert_same_scores(targets, [7, 9, 11, 13, 15, 17, 6, 8], rounds, 1e-4)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("bloom", "BloomForCausalLM takes no positions of tokens"),
        ("mamba2", "Mamba2ForCausalLM keeps recurrent states beside its cache"),
        ("ctrl", "CTRLLMHeadModel is not static: over a cache of fixed size"),
    ],
)
def test_passes_that_are_not_static_are_refused(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"^[^\n]*optimize='compile': .*, since {reason}[^\n]*$"):
        TransformersTarget(build(ENTRIES[name]), optimize="compile")
