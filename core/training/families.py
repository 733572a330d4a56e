"""Families: the networks that can be trained, what each learns from, and how it is saved."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn.functional import linear

from outrider.contract.target import Target
from outrider.drafter_parts import weights
from outrider.drafter_parts.features import FeatureNetwork
from outrider.drafter_parts.vocabulary import Vocabulary
from outrider.drafters import eagle, eagle3, falcon, medusa, mlp_speculator
from outrider.errors import ConfigError, nearest
from outrider.runtime.cached_model import HIDDEN
from outrider.training.distill import small_lm_learner
from outrider.training.glancing import glancing
from outrider.training.learner import Learner
from outrider.training.losses import cross_entropy, forward_kl
from outrider.training.starts import eagle_start
from outrider.training.states import Batch, chosen
from outrider.training.unrolled import unrolled


def learner(
    family: str, target: Target, vocabulary: Vocabulary, seed: int, options: Mapping[str, Any]
) -> Learner:
    """Returns a fresh network of a family, and how it learns.

    options: those of the family's function here.

    Raises:
        ConfigError: the family is unknown.
    """
    if family not in FAMILIES:
        raise ConfigError(f"recipe.family={family!r}: {nearest(family, list(FAMILIES))}")
    return FAMILIES[family](target, vocabulary, seed, **options)


def medusa_learner(
    target: Target,
    vocabulary: Vocabulary,
    seed: int,
    *,
    heads: int = 4,
    blocks: int = 1,
    kind: str = "residual",
    own: bool = False,
    soft: bool = True,
    share: float = 1.0,
) -> Learner:
    """Medusa-1 (2401.10774, section 2.2.1): the summed cross entropy of the heads.

    soft: against the target's distributions instead of its tokens. share: of the places, in each step.
    """
    shape = {"heads": heads, "blocks": blocks, "kind": kind, "own": own}
    network = medusa.fresh(target, vocabulary, seed=seed, **shape)
    head = weights.head(target).detach()

    def loss(batch: Batch) -> Tensor:
        total = head.new_zeros(())
        for place in range(heads):
            states, wanted, tokens = _pairs(batch, vocabulary, place, share, network.training)
            scores = network.ahead(place, states)
            total = total + _told(scores, wanted, tokens, vocabulary, head, soft=soft)
        return total

    def save(folder: Path) -> None:
        config = {"medusa_num_heads": heads, "medusa_num_layers": blocks, "block": kind}
        medusa.save(network, folder, {**config, **_sizes(target)})

    return Learner(network, (HIDDEN,), loss, save)


def mlp_learner(
    target: Target,
    vocabulary: Vocabulary,
    seed: int,
    *,
    stages: int = 4,
    borrowed: bool = True,
    inner: int | None = None,
    soft: bool = True,
    share: float = 1.0,
) -> Learner:
    """The MLP speculator (2404.19124, section 4): the summed cross entropy of the stages.

    Each stage reads the text's own tokens. soft, share: as for Medusa.
    """
    shape = {"stages": stages, "borrowed": borrowed, "inner": inner}
    network = mlp_speculator.fresh(target, vocabulary, seed=seed, **shape)
    head = weights.head(target).detach()

    def loss(batch: Batch) -> Tensor:
        total = head.new_zeros(())
        # All stages start from the same places, those that have a token for the last one.
        picked = chosen(_counted(batch, vocabulary, stages - 1), share, network.training)
        rows, places = picked.nonzero(as_tuple=True)
        states = network.start(batch.states[HIDDEN][rows, places])
        for stage in range(stages):
            states = network(stage, states, batch.ids[rows, places + stage + 1])
            wanted = batch.states[HIDDEN][rows, places + stage + 1]
            tokens = batch.ids[rows, places + stage + 2]
            scores = network.logits(stage, states)
            total = total + _told(scores, wanted, tokens, vocabulary, head, soft=soft)
        return total

    def save(folder: Path) -> None:
        config = {"n_predict": stages, "inner_dim": network.inner, "scale_input": False}
        mlp_speculator.save(network, folder, {**config, **_sizes(target)})

    return Learner(network, (HIDDEN,), loss, save)


def eagle_learner(
    target: Target,
    vocabulary: Vocabulary,
    seed: int,
    *,
    steps: int = 1,
    feature: float = 1.0,
    probs: float = 0.1,
    best: float = 0.0,
    noise: float = 0.1,
) -> Learner:
    """EAGLE-1 (2401.15077, section 3.2), or HASS (2408.15766) with three steps and `best` 1."""
    network = eagle.fresh(target, vocabulary, seed)
    loss = _unrolled(
        network,
        target,
        steps=steps,
        feature=feature,
        probs=probs,
        best=best,
        noise=noise,
        detach=True,
    )

    def save(folder: Path) -> None:
        eagle.save(network, folder, {**_sizes(target)})

    return Learner(network, (HIDDEN,), loss, save, partial(eagle_start, network, target))


def eagle3_learner(
    target: Target,
    vocabulary: Vocabulary,
    seed: int,
    *,
    steps: int = 7,
    decay: float = 0.8,
    layers: list[int] | None = None,
    inner: int | None = None,
) -> Learner:
    """EAGLE-3 (2503.01840, section 3.2): its own output fed back, step i weighing decay^i.

    layers: the target's states that it reads. inner: the width of its feed-forward layer.
    """
    read = layers or eagle3.default_layers(target)
    network = eagle3.fresh(target, vocabulary, read, seed, inner)
    with torch.no_grad():  # the target's own rows are a better start than random ones
        network.lm_head.weight.copy_(vocabulary.rows(weights.head(target)))
    loss = _unrolled(network, target, steps=steps, decay=decay)

    def save(folder: Path) -> None:
        eagle3.save(network, target, folder)

    return Learner(network, (HIDDEN, *network.reads), loss, save)


def falcon_learner(
    target: Target,
    vocabulary: Vocabulary,
    seed: int,
    *,
    block: int = 2,
    glance: float = 0.4,
    feature: float = 1.0,
    probs: float = 0.1,
    noise: float = 0.1,
) -> Learner:
    """Falcon (AAAI 2025): `block` tokens a pass, trained with glances at the target's."""
    network = falcon.fresh(target, vocabulary, block, seed)
    head = weights.head(target).detach()

    def loss(batch: Batch) -> Tensor:
        return glancing(
            network, batch, head, glance=glance, feature=feature, probs=probs, noise=noise
        )

    def save(folder: Path) -> None:
        falcon.save(network, folder, {**_sizes(target)})

    return Learner(network, (HIDDEN,), loss, save)


FAMILIES: dict[str, Callable[..., Learner]] = {
    "medusa": medusa_learner,
    "mlp_speculator": mlp_learner,
    "eagle": eagle_learner,
    "eagle3": eagle3_learner,
    "falcon": falcon_learner,
    "small_lm": small_lm_learner,
}


def _unrolled(
    network: FeatureNetwork,
    target: Target,
    *,
    steps: int,
    feature: float = 0.0,
    probs: float = 1.0,
    best: float = 0.0,
    decay: float = 1.0,
    noise: float = 0.0,
    detach: bool = False,
) -> Callable[[Batch], Tensor]:
    head = weights.head(target).detach()

    def loss(batch: Batch) -> Tensor:
        return unrolled(
            network,
            batch,
            head,
            steps=steps,
            feature=feature,
            probs=probs,
            best=best,
            decay=decay,
            noise=noise,
            detach=detach,
        )

    return loss


def _counted(batch: Batch, vocabulary: Vocabulary, place: int) -> Bool[Tensor, "batch tokens"]:
    """Returns the places from which head `place` foretells a token of the target's own."""
    counted = torch.zeros_like(batch.own)
    ahead = place + 2
    inside = batch.own[:, ahead:] & vocabulary.knows(batch.best[:, ahead - 1 : -1])
    counted[:, : inside.shape[1]] = inside & vocabulary.knows(batch.ids[:, ahead:])
    return counted


def _pairs(
    batch: Batch, vocabulary: Vocabulary, place: int, share: float, training: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the states a head reads, those that tell the distribution it is to match, and the tokens."""
    picked = chosen(_counted(batch, vocabulary, place), share, training)
    rows, places = picked.nonzero(as_tuple=True)
    states = batch.states[HIDDEN]
    return (
        states[rows, places],
        states[rows, places + place + 1],
        batch.ids[rows, places + place + 2],
    )


def _told(
    scores: Tensor,
    wanted: Tensor,
    tokens: Tensor,
    vocabulary: Vocabulary,
    head: Tensor,
    *,
    soft: bool,
) -> Tensor:
    """Returns how far scores are from the distribution at the states `wanted`, or from the tokens."""
    if not len(scores):
        return scores.new_zeros(())
    if soft:
        return forward_kl(scores, linear(wanted, vocabulary.rows(head))).mean()
    return cross_entropy(scores, vocabulary.places(tokens)).mean()


def _sizes(target: Target) -> dict[str, Any]:
    model = target.model.config.get_text_config()
    return {"hidden_size": int(model.hidden_size), "vocab_size": target.vocab_size}
