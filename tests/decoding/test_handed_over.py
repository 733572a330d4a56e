"""Parts that are written wrongly are refused in one line, where they hand something over."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from outrider import (
    ConfigError,
    Constraint,
    Draft,
    Drafter,
    DrafterError,
    Fixed,
    OutriderError,
    SampledChance,
    Sampling,
    Session,
    Verdict,
    Verifier,
    decode,
    generate,
)
from outrider.base.errors import PluginError
from outrider.contract.composition import ask
from outrider.drafters.none import NoDraft
from outrider.drafters.random import Random
from outrider.targets.tabular import TabularTarget
from outrider.testing import checks_of
from outrider.testing.drafters import check_stays_within_gamma
from outrider.testing.verifiers import check_accepts_a_path
from outrider.verifiers.token import Token

TARGET = TabularTarget(6)


class ReturnsAList(Drafter):
    def propose(self, context: Any, pen: Any) -> Any:
        return [1, 2]


class Yields(Drafter):
    def propose(self, context: Any, pen: Any) -> Any:
        yield pen.write(1)


class Awaits(Drafter):
    async def propose(self, context: Any, pen: Any) -> None:  # type: ignore[override]
        pen.write(1)


@pytest.mark.parametrize(
    ("make", "kind"), [(ReturnsAList, "list"), (Yields, "generator"), (Awaits, "coroutine")]
)
def test_a_drafter_that_returns_its_draft_is_refused(make: Any, kind: str) -> None:
    line = f"returned a {kind}: expected a draft that is written with the pen"
    with pytest.raises(DrafterError, match=f"^drafter {make.__name__} {line}$"):
        list(decode(TARGET, make(), Token(), [0, 1]))
    with pytest.raises(DrafterError, match=line):
        check_stays_within_gamma(make)


class Asks(Drafter):
    def propose(self, context: Any, pen: Any) -> None:
        ask(pen, 1)


def test_a_drafter_that_asks_takes_the_answer() -> None:
    with pytest.raises(DrafterError, match=r"Asks asks the target: expected it to override answer"):
        list(decode(TARGET, Asks(), Token(), [0, 1]))


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("kind", "tree", "expected one of chain, "),
        ("kind", None, "expected one of chain, "),
        ("kind", ["chain"], "expected one of chain, "),
        ("needs", ["model"], "expected a frozenset of names"),
        ("needs", "model", "expected a frozenset of names"),
        ("needs", None, "expected a frozenset of names"),
    ],
)
def test_abilities_that_no_drafter_can_have_are_refused(
    field: str, value: Any, expected: str
) -> None:
    drafter: Any = Random()
    setattr(drafter, field, value)
    with pytest.raises(ConfigError, match=f"^drafter Random says {field}=.*: {expected}"):
        decode(TARGET, drafter, Token(), [0, 1])
    with pytest.raises(ConfigError, match=expected):
        check_stays_within_gamma(lambda: drafter)


class Says(Verifier):
    """A rule that returns whatever it is given."""

    def __init__(self, verdict: Any = None, **says: Any) -> None:
        self.verdict = verdict
        self.takes, self._lossless = says.get("takes", {"chain"}), says.get("lossless", True)

    @property
    def lossless(self) -> Any:
        return self._lossless

    def verify(self, draft: Any, scores: Any, chance: Any) -> Any:
        return self.verdict


@pytest.mark.parametrize(
    ("says", "line"),
    [
        ({"takes": "chain"}, "takes='chain': expected a frozenset of chain, "),
        ({"takes": ["chain"]}, "takes=.*: expected a frozenset of chain, "),
        ({"takes": {"tree"}}, "takes={'tree'}: expected a frozenset of chain, "),
        ({"lossless": "yes"}, "lossless='yes': expected True or False"),
        ({"lossless": None}, "lossless=None: expected True or False"),
    ],
)
def test_claims_that_no_rule_can_make_are_refused(says: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=f"^rule Says says {line}"):
        decode(TARGET, NoDraft(), Says(**says), [0, 1])
    with pytest.raises(ConfigError, match=line):
        check_accepts_a_path(lambda: Says(**says))


@pytest.mark.parametrize(
    ("verdict", "line"),
    [
        (Verdict((1,), 0), r"accepted \(1,\): expected a path from the root of the draft's 5"),
        (Verdict((-1,), 0), r"accepted \(-1,\): expected a path"),
        (Verdict((0, 0), 0), r"accepted \(0, 0\): expected a path"),
        (Verdict((9,), 0), r"accepted \(9,\): expected a path"),
        (Verdict(0, 0), "accepted 0: expected nodes"),  # type: ignore[arg-type]
        (Verdict(None, 0), "accepted None: expected nodes"),  # type: ignore[arg-type]
        (Verdict((0.5,), 0), "accepted .*: expected nodes"),  # type: ignore[arg-type]
        (Verdict((), -1), "adds the token -1: expected an id below 6"),
        (Verdict((), 6), "adds the token 6: expected an id below 6"),
        (Verdict((), None), "adds the token None: expected"),  # type: ignore[arg-type]
        (Verdict((), 2.5), "adds the token 2.5: expected"),  # type: ignore[arg-type]
        (((), 1), "returned tuple: expected a Verdict"),
        (None, "returned NoneType: expected a Verdict"),
    ],
)
def test_a_verdict_that_no_draft_can_have_is_refused(verdict: Any, line: str) -> None:
    with pytest.raises(PluginError, match=f"^rule Says {line}"):
        list(decode(TARGET, Random(), Says(verdict), [0, 1]))


def test_ids_of_other_libraries_are_taken_in_a_verdict() -> None:
    verdict: Any = Verdict((np.int64(0),), torch.tensor(3))  # type: ignore[arg-type]
    round = next(decode(TARGET, Random(), Says(verdict), [0, 1]))
    assert round.tokens[1:] == (3,) and type(round.tokens[1]) is int


class Raising(Sequence[int]):
    """A list that can't be read."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: Any) -> Any:
        raise KeyError(place)


RAISING = Raising()


@pytest.mark.parametrize(
    ("option", "value"), [("stops", RAISING), ("gamma", RAISING), ("stop_token_ids", RAISING)]
)
def test_options_that_can_not_be_read_are_refused(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{option}=.*: expected a"):
        generate(TARGET, [0], **{option: value})


def drawn(whole: Any, number: Any, stops: Any) -> list[int]:
    """Returns the ids of a text whose settings are numbers of given types."""
    sampling = Sampling(temperature=number(1), top_k=whole(2), seed=whole(3))
    drafter: Any = {"drafter": "bigram", "order": whole(2)}
    options = {"gamma": whole(2), "number": whole(1), "draft_timeout": whole(9)}
    return generate(TARGET, [0], drafter, sampling=sampling, stop_token_ids=stops, **options).tokens


def test_numbers_of_numpy_are_taken() -> None:
    expected = drawn(int, float, [5])
    for stops in (torch.tensor([5]), np.array([5]), {np.int64(5)}):
        assert drawn(np.int64, np.float64, stops) == expected


@pytest.mark.parametrize(
    "prompt",
    [
        torch.tensor([[0, 1]]), torch.tensor([0, 1]), np.array([0, 1]), (0, 1), [[0, 1]],
        {"input_ids": torch.tensor([[0, 1]])}, [np.int32(0), torch.tensor(1)], ((0, 1),),
        [torch.tensor([0, 1])], np.array([0, 1], dtype=object), range(2), deque([0, 1]),
    ],
)  # fmt: skip
def test_ids_are_taken_as_people_have_them(prompt: Any) -> None:
    assert TARGET.encode(prompt) == [0, 1]


@pytest.mark.parametrize(
    "prompt",
    [
        *(
            [0.5, 1.0],
            b"hi",
            None,
            5,
            ["hi"],
            [[0], [1]],
            torch.tensor([0.5]),
            [{"role": "user"}],
            {},
        ),
        *([True], np.array([True]), torch.tensor([[0], [1]]), [[[0]]], {0}, iter([0]), RAISING),
    ],
)
def test_prompts_that_are_neither_text_nor_ids_are_refused(prompt: Any) -> None:
    with pytest.raises(ConfigError, match=r"^prompt=.*: expected text, or the ids of one prompt"):
        generate(TARGET, prompt)


class Hands(Drafter):
    def __init__(self, token: Any = None, logits: Any = None) -> None:
        self.token, self.logits = token, logits

    def propose(self, context: Any, pen: Any) -> None:
        if self.logits is None:
            pen.write(self.token)
        else:
            pen.draw(self.logits)


@pytest.mark.parametrize("token", [2.7, 0.5, "2", None, True, torch.tensor([2]), -1, 6])
def test_tokens_that_are_no_ids_are_refused(token: Any) -> None:
    with pytest.raises(DrafterError, match=r"Hands wrote id .*: the vocabulary has 6 tokens"):
        list(decode(TARGET, Hands(token), Token(), [0, 1]))


@pytest.mark.parametrize(
    ("logits", "line"),
    [
        (np.zeros(6), "gave logits as ndarray: expected a tensor"),
        ([0.0] * 6, "gave logits as list: expected a tensor"),
        (torch.zeros(6, dtype=torch.complex64), "expected numbers"),
        (torch.zeros(6).to_sparse(), "expected numbers"),
    ],
)
def test_logits_that_are_no_tensor_of_numbers_are_refused(logits: Any, line: str) -> None:
    with pytest.raises(DrafterError, match=line):
        list(decode(TARGET, Hands(logits=logits), Token(), [0, 1]))


def test_probabilities_in_place_of_logits_are_warned_of() -> None:
    rounds = decode(TARGET, Hands(logits=torch.arange(6.0).softmax(-1)), Token(), [0, 1])
    with pytest.warns(UserWarning, match="expected logits, not probabilities"):
        next(rounds)


def test_an_empty_draft_has_no_path() -> None:
    with pytest.raises(PluginError, match="of the draft's 0 nodes"):
        list(decode(TARGET, NoDraft(), Says(Verdict((0,), 1)), [0, 1]))
    assert len(Draft()) == 0


class Misfits:
    """Parts with a method that takes nothing."""

    class Bound(NoDraft):
        bind: Any = lambda self: None

    class Opening(NoDraft):
        def open(self) -> Any:
            return Misfits.Bound()

    class Hasty(Token):
        verify: Any = lambda self: None

    class Moody(Fixed):
        observe: Any = lambda self: None

    class Loose(Constraint):
        ends: Any = lambda self: False

    class Silent(SampledChance):
        coins: Any = lambda self: []

    class Shut(TabularTarget):
        encode: Any = lambda self: []

    class Opens(TabularTarget):
        def open(self, *_: Any) -> Any:
            own = dict.fromkeys(("score", "commit"), lambda self: None)
            return type("Unscored", (Session,), own)()


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        (
            {"drafter": Misfits.Bound()},
            r"drafter Bound has bind\(self\) \(.*py:\d+\): expected bind",
        ),
        ({"drafter": Misfits.Opening()}, r"drafter Opening opened Bound, which has bind\(self\)"),
        ({"verifier": Misfits.Hasty()}, r"verifier Hasty has verify\(self\)"),
        ({"policy": Misfits.Moody()}, r"policy Moody has observe\(self\)"),
        ({"constraint": Misfits.Loose()}, r"constraint Loose has ends\(self\)"),
        ({"chance": Misfits.Silent(b"")}, r"chance Silent has coins\(self\)"),
        ({"target": Misfits.Shut(6)}, r"target Shut has encode\(self\)"),
        ({"target": Misfits.Opens(6)}, r"target Opens opened Unscored, which has score\(self\)"),
        ({"drafter": {"drafter": "hybrid", "chain": [Misfits.Bound()]}}, "drafter Bound has bind"),
    ],
)
def test_methods_that_can_not_be_called_are_named(parts: dict[str, Any], line: str) -> None:
    given = {"target": TARGET, "drafter": "random", "prompt": [0, 1], **parts}
    with pytest.raises(OutriderError, match=f"^{line}"):
        generate(given.pop("target"), given.pop("prompt"), given.pop("drafter"), **given)


@pytest.mark.parametrize("part", [Misfits.Bound, Misfits.Hasty, Misfits.Moody, Misfits.Loose])
def test_the_kit_names_methods_that_can_not_be_called(part: Any) -> None:
    with pytest.raises(ConfigError, match=f" {part.__name__} has "):
        checks_of(part)


def test_a_thread_that_outlives_its_draft_writes_nothing() -> None:
    written: list[str] = []
    may_write = threading.Event()

    class Late(Drafter):
        def propose(self, context: Any, pen: Any) -> None:
            threads.append(threading.Thread(target=write, args=[pen]))
            threads[-1].start()

    def write(pen: Any) -> None:
        may_write.wait(timeout=3600)
        try:
            pen.write(1)
        except DrafterError as error:
            written.append(str(error))

    threads: list[threading.Thread] = []
    rounds = list(decode(TARGET, Late(), Token(), [0, 1], max_new_tokens=3))
    may_write.set()
    for thread in threads:
        thread.join()
    late = [line for line in written if "after propose() had returned" in line]
    assert sum(round.drafted for round in rounds) == 0 and len(written) == len(rounds)
    assert len(late) == len(rounds) - 1  # the last draft had no room
