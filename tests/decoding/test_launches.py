"""Ceilings on what a round asks of an accelerator: kernels to launch, waits and replays."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tiny.graph_replayer import GraphReplayer, drafter_of, run_by
from torch.utils._pytree import tree_leaves
from waits import counted

from outrider import Sampling, decode, decode_together
from outrider.drafters.parts.networks.trained import TrainedNetwork
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.graphs.engines import RecordedPasses
from outrider.plugins.parts import make
from outrider.testing.tiny_targets import tiny_target
from tests.devices import FAR, FarTensor, accelerator, moved

FREE = {"detach", "alias", "empty", "new_empty", "empty_like", "_unsafe_view", "empty_strided"}
"""What launches no kernel, besides views."""
ROUNDS = 4

RULES = {"chain": "token", "deterministic": "candidates", "distinct": "without_replacement"}
UNTRAINED = {"path": "untrained"}
CASES: list[Any] = [  # at temperature 0 and 1: launches and waits
    ({"drafter": "eagle3", **UNTRAINED}, 5, 1, [(420, 1), (605, 1)]),
    ({"drafter": "eagle3", **UNTRAINED}, 5, 16, [(530, 1), (720, 1)]),
    ({"drafter": "eagle3", **UNTRAINED, "tree": "dynamic:8"}, 5, 1, [(445, 5), (445, 5)]),
    ({"drafter": "eagle3", **UNTRAINED, "tree": "top:3x2x2"}, 3, 1, [(260, 3), (260, 3)]),
    ({"drafter": "eagle3", **UNTRAINED, "tree": "3x2x2"}, 3, 1, [(285, 3), (570, 3)]),
    ({"drafter": "eagle3", **UNTRAINED, "tree": "replay:3"}, 3, 1, [(265, 3), (815, 6)]),
    ({"drafter": "dflash", **UNTRAINED}, 7, 1, [(160, 1), (420, 1)]),
    ({"drafter": "dflash", **UNTRAINED, "corrector": "markov"}, 7, 1, [(220, 1), (480, 1)]),
    ({"drafter": "medusa", **UNTRAINED}, 4, 1, [(40, 1), (190, 1)]),
    ({"drafter": "hydra", **UNTRAINED}, 4, 1, [(65, 1), (215, 1)]),
    ({"drafter": "mlp_speculator", **UNTRAINED}, 3, 1, [(70, 1), (180, 1)]),
    ({"drafter": "peagle", **UNTRAINED}, 5, 1, [(115, 1), (300, 1)]),
    ({"drafter": "small_lm", "layers": 1}, 5, 1, [(380, 1), (570, 1)]),
]
MARKOV = {"drafter": "dflash", **UNTRAINED, "corrector": "markov"}
RECORDED: list[Any] = [  # launches and waits, where the draft is one replay
    ({"drafter": "eagle3", **UNTRAINED}, 5, 1, [(16, 1), (17, 1)]),
    ({"drafter": "eagle3", **UNTRAINED}, 5, 16, [(19, 1), (20, 1)]),
    ({"drafter": "eagle3", **UNTRAINED, "tree": "dynamic:8"}, 5, 1, [(10, 1), (10, 1)]),
    ({"drafter": "eagle3", **UNTRAINED, "tree": "dynamic:8"}, 5, 16, [(13, 1), (13, 1)]),
    ({"drafter": "eagle3", **UNTRAINED, "tree": "top:3x2x2"}, 3, 1, [(10, 1), (10, 1)]),
    ({"drafter": "eagle3", **UNTRAINED, "tree": "3x2x2"}, 3, 1, [(16, 1), (17, 1)]),
    ({"drafter": "eagle3", **UNTRAINED, "tree": "3x2x2"}, 3, 16, [(19, 1), (20, 1)]),
    ({"drafter": "dflash", **UNTRAINED}, 7, 1, [(16, 1), (17, 1)]),
    ({"drafter": "dflash", **UNTRAINED}, 7, 16, [(19, 1), (20, 1)]),
    (MARKOV, 7, 1, [(16, 1), (17, 1)]),
    (MARKOV, 7, 16, [(19, 1), (20, 1)]),
    ({**MARKOV, "confidence": 0.01}, 7, 1, [(16, 1), (17, 1)]),
    ({**MARKOV, "tree": "3x2x2"}, 3, 16, [(19, 1), (20, 1)]),
    ({"drafter": "medusa", **UNTRAINED}, 4, 1, [(12, 1), (13, 1)]),
    ({"drafter": "medusa", **UNTRAINED}, 4, 16, [(13, 1), (14, 1)]),
    ({"drafter": "medusa", **UNTRAINED, "tree": "top:3x2x2"}, 3, 1, [(9, 1), (9, 1)]),
    ({"drafter": "medusa", **UNTRAINED, "tree": "top:3x2x2"}, 3, 16, [(7, 1), (7, 1)]),
    ({"drafter": "hydra", **UNTRAINED}, 4, 1, [(14, 1), (15, 1)]),
    ({"drafter": "hydra", **UNTRAINED}, 4, 16, [(15, 1), (16, 1)]),
    ({"drafter": "mlp_speculator", **UNTRAINED}, 3, 1, [(14, 1), (15, 1)]),
    ({"drafter": "mlp_speculator", **UNTRAINED}, 3, 16, [(15, 1), (16, 1)]),
    ({"drafter": "mtp", **UNTRAINED}, 5, 1, [(14, 1), (15, 1)]),
    ({"drafter": "peagle", **UNTRAINED}, 5, 1, [(16, 1), (17, 1)]),
    ({"drafter": "peagle", **UNTRAINED}, 5, 16, [(19, 1), (20, 1)]),
    ({"drafter": "small_lm"}, 5, 1, [(13, 1), (14, 1)]),
    ({"drafter": "small_lm"}, 5, 16, [(13, 1), (14, 1)]),
    ({"drafter": "small_lm", "tree": "dynamic:4"}, 3, 1, [(9, 1), (9, 1)]),
    ({"drafter": "small_lm", "tree": "dynamic:4"}, 3, 16, [(7, 1), (7, 1)]),
    ({"drafter": "pard"}, 5, 1, [(13, 1), (14, 1)]),
    ({"drafter": "pard"}, 5, 16, [(13, 1), (14, 1)]),
]
VERDICTS = {1: [24, 27], 16: [19, 22]}
"""Launches, where target, rule and bonus of so many texts are one replay."""


@pytest.fixture
def frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks without weights know every third token, as published ones know the frequent."""

    def load(cls: Any, path: Any, target: Any, **untrained: Any) -> Any:
        known = Vocabulary(target.vocab_size, torch.arange(0, target.vocab_size, 3))
        return cls.untrained(target, known, **untrained)

    monkeypatch.setattr(TrainedNetwork, "load", classmethod(load))


@pytest.mark.usefixtures("frequent")
@pytest.mark.parametrize(("settings", "gamma", "texts", "ceilings"), CASES + RECORDED)
@pytest.mark.parametrize("temperature", [0, 1])
def test_a_draft_stays_below_its_ceilings_and_is_that_of_the_cpu(
    settings: dict[str, Any], gamma: int, texts: int, ceilings: Any, temperature: int
) -> None:
    launches, waiting, drafting = Counter[bool](), [0], [False]
    most, most_waits = ceilings[temperature]
    record, is_recorded = GraphReplayer(), any(ceilings is case[-1] for case in RECORDED)

    def told(call: Any, args: Any, kwargs: Any, result: Any) -> None:
        is_there = any(isinstance(it, FarTensor) for it in tree_leaves((args, kwargs, result)))
        name = call.overloadpacket.__name__
        launches[drafting[0]] += is_there and not call.is_view and name not in FREE

    def loop(target: Any, drafter: Any) -> Iterator[Any]:
        rule = make("verifier", RULES[drafter.kind])
        before = range(8 if is_recorded else 0)  # so that all rounds that count are recorded
        prompts = [[*before, 1, 2, 3 + text] for text in range(texts)]
        sampling = Sampling(temperature=temperature)
        limits: Any = {"gamma": gamma, "budget": 16, "max_new_tokens": 60, "sampling": sampling}
        if texts == 1:
            return enumerate(decode(target, drafter, rule, prompts[0], **limits))
        return decode_together(target, drafter, rule, prompts, **limits)

    target, engine = tiny_target(600), RecordedPasses(record)
    drafter = drafter_of(settings, 600) if is_recorded else make("drafter", settings)
    near = loop(target, drafter)
    expected = [next(near)[1].tokens for _ in range((3 + ROUNDS) * texts)]
    with accelerator(told=told) as device, pytest.MonkeyPatch.context() as patched:
        moved(target.model, device)
        if is_recorded:
            run_by(engine, target.model)
            drafter = drafter_of(settings, 600, engine, device)
        else:
            drafter = make("drafter", settings)
        far = loop(target, drafter)
        found = [next(far)[1].tokens for _ in range(3 * texts)]  # prompts are read
        kind = type((texts > 1 and drafter.open_together()) or drafter)
        propose = kind.propose_batch
        with counted(FAR.type) as waits:

            def drafted(*given: Any) -> None:
                before, drafting[0] = waits.waits, True
                propose(*given)
                drafting[0], waiting[0] = False, waiting[0] + waits.waits - before

            patched.setattr(kind, "propose_batch", drafted)
            launches.clear()
            record.replays = 0
            found += [next(far)[1].tokens for _ in range(ROUNDS * texts)]
    assert found == expected
    assert record.replays == 2 * ROUNDS * is_recorded
    assert launches[True] / ROUNDS <= most and waiting[0] / ROUNDS <= most_waits
    if is_recorded and not drafter.trees:
        assert launches[False] / ROUNDS <= VERDICTS[texts][temperature]
    if not drafter.trees:  # all verdicts are waited for once
        assert waits.waits - waiting[0] <= ROUNDS and not waits.kinds["writes"]
