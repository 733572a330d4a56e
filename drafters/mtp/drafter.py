"""Mtp: the target's layer for multi-token prediction drafts, fed with its own predictions."""

import copy
import inspect
from pathlib import Path
from typing import Any, Self, final

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from outrider.base.errors import ConfigError
from outrider.contract.context import Context
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.mtp.depths import Depths
from outrider.drafters.mtp.tensors import count_layers, published, read, target_folder
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.entries import ANY, read_entries
from outrider.drafters.parts.networks.features import FeatureDrafter, FeatureNetwork
from outrider.drafters.parts.networks.layer import Ids, KeysAndValues, Sees, States
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.targets.passes.cached_model import HIDDEN
from outrider.targets.passes.masks import additive_mask, causal
from outrider.targets.passes.pass_input import cache_argument

LAYER: dict[str, Any] = {
    "num_hidden_layers": 1,
    "layer_types": ["full_attention"],
    "mlp_layer_types": ["sparse"],
    "mlp_only_layers": [],
    "first_k_dense_replace": 0,
}
"""The values for a single layer of full attention, set where the target's config has the field."""


@final
class MtpNetwork(FeatureNetwork):
    """Fuses state and token, and runs them through one of the target's layers (2412.19437, 2.2).

    The layer is of the target's own class, with full attention, and with experts if the target has
    any. Embeddings and head are the target's. The state that it returns has been through its last
    norm, as the target's own states have.

    further: how many such layers there are beside it, each of which predicts one token further.

    Raises `ConfigError` for a target whose layers are not built as Llama's are.
    """

    family = "mtp"
    reads: tuple[str, ...] = (HIDDEN,)

    def __init__(self, target: Target, vocabulary: Vocabulary, *, further: int = 0) -> None:
        super().__init__()
        decoder, config = _decoder(target), _one_layer(target)
        width = config.hidden_size
        self.vocabulary = vocabulary
        self.enorm: nn.Module = _norm(decoder, config)
        self.hnorm: nn.Module = _norm(decoder, config)
        self.eh_proj: nn.Linear = nn.Linear(2 * width, width, bias=False)
        self.block: nn.Module = type(decoder.layers[-1])(config, 0)
        self.norm: nn.Module = _norm(decoder, config)
        for parameter in self.parameters():
            if parameter.ndim > 1:  # those of experts are not initialised
                nn.init.normal_(parameter, std=0.02)
        self._rotation = [decoder.rotary_emb]  # in a list, so that it is no part of the network
        self._embed(target)
        self.borrowed_head: weights.BorrowedHead | None = weights.BorrowedHead.of(
            target, vocabulary
        )
        self.further: nn.ModuleList = nn.ModuleList(
            MtpNetwork(target, vocabulary) for _ in range(further)
        )

    def forward(
        self, states: States, tokens: Ids, positions: Ids, sees: Sees, cache: KeysAndValues
    ) -> States:
        if sees is None:
            count = tokens.shape[1]
            sees = causal(count, len(cache) + count, tokens.device)[None, None]
        words = self.enorm(embedding(tokens, self._embedding))
        x = self.eh_proj(torch.cat([words, self.hnorm(states)], dim=-1))
        x = self.block(
            x,
            attention_mask=additive_mask(sees, x.dtype),
            position_ids=positions,
            position_embeddings=self._rotation[0](x, positions),
            **{cache_argument(type(self.block).forward): _LayerCache(cache)},
        )
        out: Tensor = self.norm(x)
        return out

    @classmethod
    def load(cls, path: str | None, target: Target, **untrained: Any) -> Self:
        """Returns the network in a folder; by default in that of the target's own checkpoint."""
        if path is not None:
            if path != weights.UNTRAINED:
                folder = weights.folder(cls.family, path)
                whole = target.model.config
                own = whole.to_dict() | whole.get_text_config().to_dict()
                entries = checkpoint.read_config(folder)
                read_entries(folder, entries, cls.family, dict.fromkeys(own, ANY))
            return super().load(path, target, **untrained)
        return cls.read_checkpoint(target_folder(target), target)

    @classmethod
    def read_checkpoint(cls, folder: Path, target: Target) -> Self:
        weights.read_config(folder, target)
        layers = int(target.model.config.get_text_config().num_hidden_layers)
        file, tensors, vocabulary = read(folder, layers, target.vocab_size)
        options = {"further": count_layers(tensors) - 1}
        return cls.with_tensors(tensors, file, target, vocabulary, **options)

    def save_checkpoint(self, folder: Path, target: Target) -> None:
        """Writes the network as DeepSeek-V3 names it, in half precision."""
        layers = int(target.model.config.get_text_config().num_hidden_layers)
        tensors = published(self.state_dict(), layers, f"model.layers.{layers}.")
        self._write(folder, target, tensors)


def _norm(decoder: Any, config: Any) -> nn.Module:
    """Returns a norm like the decoder's last one, without its weights if it can be made anew."""
    kind = type(decoder.norm)
    try:
        arguments = inspect.signature(kind).bind(config.hidden_size, eps=config.rms_norm_eps)
    except (AttributeError, TypeError):  # LayerNorm, and norms with other arguments
        copied: nn.Module = copy.deepcopy(decoder.norm)
        return copied.requires_grad_(True)
    made: nn.Module = kind(*arguments.args, **arguments.kwargs)
    return made


@final
class _LayerCache:
    """Passes the keys and values of one layer to transformers as a cache."""

    def __init__(self, cache: KeysAndValues) -> None:
        self._cache = cache

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        return self._cache.extend(keys, values)


def _decoder(target: Target) -> Any:
    """Returns the target's decoder.

    Raises:
        ConfigError: it lacks a part that the network needs, or rotates positions in several ways.
    """
    decoder = target.model.get_decoder()
    for part in ("layers", "norm", "rotary_emb"):
        if not hasattr(decoder, part):
            raise ConfigError(
                f"target: {type(decoder).__name__} has no {part}: expected a decoder with layers,"
                " norm and rotary_emb, as models with multi-token prediction have"
            )
    if hasattr(decoder.rotary_emb, "layer_types"):
        raise ConfigError(
            f"target: {type(decoder).__name__} rotates positions by type of layer: expected one"
            " rotation for all, as in models with multi-token prediction"
        )
    return decoder


def _one_layer(target: Target) -> Any:
    """Returns the target's config, for one layer of full attention."""
    config = copy.deepcopy(target.model.config.get_text_config())
    for name, value in LAYER.items():
        if getattr(config, name, None) is not None:
            setattr(config, name, value)
    return config


@final
class Mtp(FeatureDrafter[MtpNetwork]):
    """Drafts with the target's multi-token prediction layers (2412.19437).

    The checkpoints of DeepSeek-V3 (also in eight bits), GLM-4.5, Qwen3-Next and MiMo-7B have such a
    layer, which transformers does not load. A single one drafts all tokens. Of several, each drafts
    one, and a draft has at most as many tokens as there are layers.

    path: a folder with these tensors, such as one that `outrider train` has written for a target
        without them; "untrained" for random weights. Defaults to the folder of the target.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.

    Raises `ConfigError` in `bind` if there are no such tensors, or one does not fit the target.
    """

    needs: frozenset[str] = frozenset({"model", HIDDEN})

    def __init__(self, path: str | None = None, tree: Any = None) -> None:
        super().__init__(MtpNetwork, path, tree)

    def _start(self) -> None:
        super()._start()
        self._depths = Depths([self._network, *self._network.further])

    @property
    def in_rows(self) -> bool:
        return not len(self._network.further) and super().in_rows

    @torch.no_grad()
    def propose(self, context: Context, pen: Pen) -> None:
        if not len(self._network.further):
            super().propose(context, pen)
        elif pen.open and (states := context.features.get(HIDDEN)) is not None:
            text, known = context.tokens, states[: len(context.tokens) - 1]
            self._depths.draft(pen, self._shape, text, known[None], self._logits)
