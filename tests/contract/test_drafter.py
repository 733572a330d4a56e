"""What a drafter does unless it says otherwise."""

from collections import deque
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from outrider import Context, Drafter, Pen, SampledChance, Sampling, Tokens
from outrider.drafters.eagle import Eagle
from outrider.drafters.hierarchy import Hierarchy
from outrider.drafters.hybrid import Hybrid
from outrider.drafters.ngram import NGram
from outrider.drafters.parts.texts.ngrams import NGramTable
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget


class Counting(Drafter):
    def propose(self, context: Context, pen: Pen) -> None:
        pen.write(len(context.tokens))


def test_a_batch_is_drafted_one_after_another() -> None:
    pens = [
        Pen(sampling=Sampling(), chance=SampledChance.seeded(0), vocab_size=9, gamma=1)
        for _ in range(3)
    ]
    drafter = Counting()
    drafter.bind(TabularTarget(9))
    drafter.propose_batch([(Context(Tokens([0] * (i + 1))), pen) for i, pen in enumerate(pens)])
    assert [pen.finish().tokens for pen in pens] == [(1,), (2,), (3,)]
    assert not drafter.needs
    assert not drafter.trees


def test_a_fork_shares_read_only_data_and_nothing_of_a_text(llama: Any) -> None:
    target = TransformersTarget(llama())
    eagle: Any = Eagle(path="untrained")
    eagle.bind(target)
    other = eagle.fork()
    assert other._target is target
    assert other._drafting is not eagle._drafting
    assert other._drafting._network is eagle._drafting._network
    nested: Any = Hierarchy("prompt_lookup", layers=2)
    nested.bind(target)
    assert nested.fork()._small._model is nested._small._model
    several: Any = Hybrid(["prompt_lookup", {"drafter": "eagle", "path": "untrained"}])
    several.bind(target)
    parts, forks = several._drafters, several.fork()._drafters
    assert forks[1]._drafting._network is parts[1]._drafting._network
    assert forks[0]._text is not parts[0]._text
    lookup: Any = PromptLookup()
    pen = Pen(sampling=Sampling(), chance=SampledChance.seeded(0), vocab_size=9, gamma=1)
    lookup.propose(Context(Tokens([1, 2, 1])), pen)
    fork = lookup.fork()
    fork.propose(Context(Tokens([3, 4, 3])), pen)
    assert lookup._text == [1, 2, 1]


def test_a_fork_shares_networks_in_any_attribute() -> None:
    class Keeps(Counting):
        def __init__(self) -> None:
            self.network = nn.Linear(2, 2)
            self.by_name = {"a": nn.Linear(2, 2), "b": [nn.Linear(2, 2)]}

    drafter = Keeps()
    fork = drafter.fork()
    assert fork.network is drafter.network
    assert fork.by_name is not drafter.by_name
    assert fork.by_name["a"] is drafter.by_name["a"]
    assert fork.by_name["b"][0] is drafter.by_name["b"][0]


def test_a_fork_shares_the_tensors_of_a_drafter_in_whatever_holds_them() -> None:
    class Slotted:
        __slots__ = ("empty", "network")

    class Keeps(Counting):
        def __init__(self) -> None:
            self.table = torch.zeros(3)
            self.weights = {"a": torch.zeros(3)}
            self.layers = deque([(torch.zeros(3), {"b": torch.zeros(3)})])
            self.slotted = Slotted()
            self.slotted.network = nn.Linear(2, 2)
            self.partial = partial(nn.Linear.forward, nn.Linear(2, 2))
            self.method = nn.Linear(2, 2).forward
            self.cache = SimpleNamespace(room=torch.zeros(3))

    drafter: Any = Keeps()
    fork = drafter.fork()
    assert fork.table is drafter.table
    assert fork.weights is not drafter.weights and fork.weights["a"] is drafter.weights["a"]
    assert fork.layers is not drafter.layers and fork.layers[0][0] is drafter.layers[0][0]
    assert fork.layers[0][1]["b"] is drafter.layers[0][1]["b"]
    assert fork.slotted is not drafter.slotted and fork.slotted.network is drafter.slotted.network
    assert fork.partial.args[0] is drafter.partial.args[0]
    assert fork.method.__self__ is drafter.method.__self__
    # A cache of a text is written in place, so it is copied.
    assert fork.cache.room is not drafter.cache.room


def test_a_fork_shares_the_counts_of_n_grams() -> None:
    drafter: Any = NGram(2)
    drafter._table = NGramTable.fit([[1, 2, 3]], 2, 9)
    assert drafter.fork()._table is drafter._table
