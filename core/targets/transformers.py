"""TransformersTarget: any text model of transformers, from a hub id or a folder."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.context import Tokens
from outrider.contract.draft import Draft
from outrider.contract.sampling import Sampling
from outrider.contract.target import PathScorer, Session, Target
from outrider.contract.verifier import Verdict
from outrider.errors import ConfigError, require
from outrider.runtime import flat, launch, ranks
from outrider.runtime.cached_model import CACHE, HIDDEN, SOURCE, CachedModel, refuse_stateful
from outrider.runtime.encoded import BRANCHING, EncodedCache, begins
from outrider.runtime.linear import can_pack, pack
from outrider.runtime.static import enable
from outrider.runtime.text_tree import TextTree
from outrider.targets import together
from outrider.targets.batch import write
from outrider.targets.loading import load

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

OPTIMIZE = ("auto", "none", "packed", "compile")


@final
class TransformersTarget(Target):
    """A transformers model that writes text: a decoder, or an encoder-decoder such as T5.

    The encoder reads the prompt, once; the text begins with the decoder's start token.

    model: a hub id, a folder, or a model already loaded.
    tokenizer: the tokenizer of a loaded model; otherwise it comes from the same place.
    dtype: float32, bfloat16, float16, float64, or auto: float32 on a CPU, which is slower in
        half precision, and what the checkpoint holds elsewhere.
    device: cpu, cuda, cuda:1, ..., or auto: the accelerator where there is one.
    optimize: packed, for weights as the processor's kernels read them, which changes `model` in
        place; compile, for passes of fixed sizes as graphs (with CUDA graphs on a GPU), each made
        on its first use; none; or auto: packed for a decoder that is loaded here, on a CPU.
    tensor_parallel: whether to spread a decoder over the processes of torchrun, by transformers'
        plan for it. The first decides everything and goes on from here alone; each of the others
        stays in this call for its part of the passes, and ends when the first does.

    Raises `ConfigError` for a place that does not exist, `TargetError` for weights that do not
    fit or a model that can't be rolled back.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        dtype: str = "auto",
        device: str = "auto",
        optimize: str = "auto",
        tensor_parallel: bool = False,
    ) -> None:
        require(optimize in OPTIMIZE, "optimize", optimize, f"one of {', '.join(OPTIMIZE)}")
        loaded = isinstance(model, str | Path)
        if tensor_parallel:
            plain = optimize in ("auto", "none")
            require(plain, "optimize", optimize, "none or auto with target.tensor_parallel")
            require(loaded, "model", type(model).__name__, "a hub id or a folder to be spread")
            require(device == "auto", "device", device, "auto: each rank takes that of its number")
            launch.join()
        if loaded:
            model, tokenizer = load(str(model), dtype, device, tensor_parallel=tensor_parallel)
        refuse_stateful(model)
        self._start = begins(model)
        wanted = optimize == "packed" or (optimize == "auto" and loaded and not self._start)
        if tensor_parallel:
            ranks.take_part(model)
        elif optimize == "compile":
            compiled(model)
        elif wanted and can_pack(model):
            pack(model)
        self.model: PreTrainedModel = model
        self.tokenizer: PreTrainedTokenizerBase | None = tokenizer
        config = model.config.get_text_config()
        states = {f"{HIDDEN}.{place}" for place in range(config.num_hidden_layers)}
        of_kind = {SOURCE} if self._start else {"model", CACHE, HIDDEN, *states}
        if tensor_parallel:
            of_kind -= {CACHE}  # of which each rank has a part
        self.offers = frozenset(of_kind | ({"tokenizer"} if tokenizer else set()))
        self._spread = tensor_parallel
        self.vocab_size = int(config.vocab_size)
        self.max_length = getattr(config, "max_position_embeddings", None)
        ends = model.generation_config.eos_token_id if model.generation_config else None
        self.eos = frozenset([ends] if isinstance(ends, int) else ends or ())
        # A given mask takes the place of the model's own, and with it of a window.
        self.trees = not getattr(config, "sliding_window", None)
        if self._start and config.model_type not in BRANCHING:
            self.trees = False
            self.no_trees = (
                f"{type(model).__name__} takes only chains, since its decoder counts places itself"
            )
        self._fingerprint: str | None = None

    def begin(self, prompt: Sequence[int]) -> tuple[list[int], Tokens | None]:
        if not self._start:
            return super().begin(prompt)
        return list(self._start), Tokens(list(prompt))

    def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
        text, source = self.begin(tokens)
        return _TransformersSession(CachedModel(self.model, needs, source), text)

    def open_together(
        self, prompts: Sequence[Sequence[int]], needs: frozenset[str] = frozenset()
    ) -> list[Session]:
        # A cache of one's own; a mask that is the model's; an encoder.
        if CACHE in needs or not self.trees or self._spread or self._start:
            return super().open_together(prompts, needs)
        return together.opened(self.model, prompts, needs)

    def score_together(
        self, sessions: Sequence[Session], drafts: Sequence[Draft]
    ) -> list[Float[Tensor, "nodes+1 vocab"]]:
        mine = [each for each in sessions if isinstance(each, together.TogetherSession)]
        if len(mine) < len(sessions):
            return super().score_together(sessions, drafts)
        return together.score(mine, drafts)

    def path_scorer(self, prompt: Sequence[int]) -> PathScorer:
        return TextTree(CachedModel(self.model), prompt).logits

    def write(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        chances: Sequence[Chance],
        max_new_tokens: int,
    ) -> list[list[int]]:
        if self._spread:
            return super().write(prompts, sampling, chances, max_new_tokens)
        starts, cache = prompts, None
        if self._start:
            starts, cache = [self._start] * len(prompts), EncodedCache(self.model, prompts)
        return write(self.model, self.eos, starts, sampling, chances, max_new_tokens, cache)

    def fingerprint(self) -> str | None:
        if self._spread:  # no rank has all of the weights
            return None
        if self._fingerprint is None:
            digest = hashlib.sha256(self.model.config.to_json_string().encode())
            digest.update(str(self._start or "").encode())  # of a generation config
            for name, tensor in self.model.state_dict().items():
                digest.update(name.encode())
                digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint


@final
class _TransformersSession(Session):
    def __init__(self, cached: CachedModel, tokens: list[int]) -> None:
        self._cached = cached
        self._pending = tokens  # committed, and not yet in the cache
        self._draft = Draft()

    def score(self, draft: Draft) -> Float[Tensor, "nodes+1 vocab"]:
        self._draft = draft
        tokens = [*self._pending, *draft.tokens]
        if draft.is_chain:
            return self._cached.feed(tokens, len(draft) + 1)
        known, before = self._cached.length, len(self._pending)
        reach = torch.full((len(tokens), known + len(tokens)), float("-inf"))
        for row in range(before):
            reach[row, : known + row + 1] = 0
        depths = list(range(before))
        for node in range(len(draft)):
            path = draft.path(node)
            depths.append(before - 1 + len(path))
            reach[before + node, : known + before] = 0
            reach[before + node, [known + before + step for step in path]] = 0
        device, dtype = self._cached.model.device, self._cached.model.dtype
        return self._cached.feed(
            tokens,
            len(draft) + 1,
            mask=reach.to(device, dtype)[None, None],
            positions=torch.tensor([depths], device=device) + known,
        )

    def commit(self, verdict: Verdict) -> None:
        drafted, accepted = len(self._draft), verdict.accepted
        if accepted == tuple(range(len(accepted))):
            self._cached.drop(drafted - len(accepted))
        else:
            self._cached.retain_rows(drafted, accepted)
        self._pending = [verdict.next_token]

    def features(self) -> dict[str, Tensor]:
        return self._cached.features


def compiled(model: "PreTrainedModel") -> None:
    """Has a model's passes compiled.

    Raises:
        ConfigError: it is none of the kinds that can be.
    """
    if not flat.knows(model):
        raise ConfigError(
            f"target.optimize='compile': {type(model).__name__} is none of the kinds that are"
            f" compiled ({', '.join(flat.KINDS)}): expected none or packed"
        )
    enable(model)
