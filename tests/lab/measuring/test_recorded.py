"""A card replays what its run measured: exactly where it keeps all, within its error where not."""

from functools import partial
from pathlib import Path

import pytest
import torch

from outrider import Drafter, Policy, Sampling, Verifier
from outrider.base.errors import TargetError
from outrider.contract.draft import Draft
from outrider.lab.measuring.laws import READINGS, Recorder
from outrider.lab.measuring.measurement import Overlap
from outrider.lab.measuring.overlap import overlap
from outrider.lab.measuring.recorded import FILES, RecordedDrafter, RecordedTarget
from outrider.lab.measuring.reference import Reference, reference
from outrider.policies.confidence import Confidence
from outrider.targets.tabular import TabularTarget
from outrider.testing.table_drafters import ChainDrafter
from outrider.verifiers.block import Block
from outrider.verifiers.cactus import Cactus
from outrider.verifiers.gumbel import Gumbel
from outrider.verifiers.lenient import Lenient, ScaledUniform
from outrider.verifiers.sample_match import Rejection, SampleMatch
from outrider.verifiers.token import Token
from outrider.verifiers.traversal import Traversal
from outrider.verifiers.typical import Truncation, Typical

VOCAB, GAMMA, PROMPT = 24, 3, [0, 1]
TARGET = TabularTarget(VOCAB, 1, seed=2, sharpness=2.0)
RULES = (
    *(Token(), Block(), Traversal(), Rejection(), SampleMatch(), Gumbel()),
    *(Lenient(0.3), Typical(0.3), ScaledUniform(0.5), Cactus(0.2), Truncation()),
)
SAMPLED = Sampling(temperature=1.0)


def text_of(sampling: Sampling) -> Reference:
    generator, ids = torch.Generator().manual_seed(1), [*PROMPT]
    for _ in range(40):
        probs = sampling.probs(TARGET.logits(ids))
        ids.append(int(torch.multinomial(probs, 1, generator=generator)))
    return reference(TARGET, PROMPT, ids[2:])


def recorded(folder: Path, drafter: Drafter, sampling: Sampling, keep: int | None) -> Reference:
    text = text_of(sampling)
    recorder = Recorder(text, ("a", 1, "chat"), {"d": drafter.autoregressive}, sampling, keep)
    overlap(text, drafter, Token(), sampling, GAMMA, note=partial(recorder.note, "d"))
    recorder.save(folder / FILES / "00000.safetensors")
    return text


def replays(
    card: Path, text: Reference, rule: Verifier, sampling: Sampling, policy: Policy | None = None
) -> list[Overlap]:
    found = []
    for reading in READINGS:
        target = RecordedTarget(str(card), "model", reading)
        along = reference(target, PROMPT, text.ids[2:])
        drafter = RecordedDrafter(str(card), "d", reading)
        found.append(overlap(along, drafter, rule, sampling, GAMMA, policy=policy))
    return found


def figures(sums: Overlap) -> dict[str, float]:
    mean = {"alpha": sums.beta[0], "rule": sums.by_rule or 0, "overshoot": sums.overshoot or 0}
    each = {
        f"{name}{d}": value
        for name in ("reached", "beta", "rounds", "tested", "accepted")
        for d, value in enumerate(getattr(sums, name))
    }
    return {**mean, **each}


@pytest.mark.parametrize("kind", ["drawn", "mixed", "short"])
@pytest.mark.parametrize("sampling", [SAMPLED, Sampling(), Sampling(0.7, top_p=0.8)], ids=str)
def test_ten_rules_are_replayed_exactly_where_all_is_kept(
    kind: str, sampling: Sampling, tmp_path: Path
) -> None:
    drafter = ChainDrafter(TARGET, kind, seed=5)
    drafter.autoregressive = kind == "drawn"
    text = recorded(tmp_path, drafter, sampling, None)
    for rule in RULES:
        direct = overlap(text, drafter, rule, sampling, GAMMA, policy=Confidence(0.2))
        for replay in replays(tmp_path, text, rule, sampling, Confidence(0.2)):
            assert figures(replay) == pytest.approx(figures(direct), abs=1e-6)


@pytest.mark.parametrize("keep", [3])
@pytest.mark.parametrize("sampling", [SAMPLED, Sampling(), Sampling(1.3)], ids=str)
def test_figures_of_a_sketch_are_within_their_error(
    keep: int, sampling: Sampling, tmp_path: Path
) -> None:
    drafter = ChainDrafter(TARGET, "drawn", seed=5)
    text = recorded(tmp_path, drafter, sampling, keep)
    exact = [name for name in figures(overlap(text, drafter, Token(), sampling, GAMMA))]
    for rule in RULES:
        direct = figures(overlap(text, drafter, rule, sampling, GAMMA))
        one, *others = map(figures, replays(tmp_path, text, rule, sampling))
        for name, value in direct.items():
            error = 2 * max(abs(one[name] - other[name]) for other in others)
            assert abs(one[name] - value) <= error + 1e-6, (type(rule).__name__, name)
        if isinstance(rule, Token | Block):
            assert {name: one[name] for name in exact} == pytest.approx(direct, abs=1e-6)


def test_a_card_has_p_along_its_texts_alone(tmp_path: Path) -> None:
    recorded(tmp_path, ChainDrafter(TARGET, "drawn"), SAMPLED, 4)
    with pytest.raises(TargetError, match="expected protocol=overlap"):
        RecordedTarget(str(tmp_path), "model").open(PROMPT).score(Draft.chain([1]))
