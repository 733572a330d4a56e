"""OutriderProposer: any drafter that needs tokens alone, inside vLLM, by its Hydra config."""

import json
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from outrider.contract.chance import SampledChance
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.sampling import Sampling
from outrider.contract.target import Session, Target
from outrider.errors import ConfigError
from outrider.plugins.registry import installed
from outrider.serving.requests import Request, Requests

VARIABLE = "OUTRIDER_DRAFTER"
"""The environment variable with the drafter's config, a JSON object."""

SUPPORTED = ("0.32.",)
"""The versions of vLLM whose interface this is; upstream calls it experimental."""

GREEDY = Sampling()
"""A drafter that draws is asked for its likeliest tokens."""

UNUSED = SampledChance.seeded(0)
"""What is likeliest is no matter of chance."""

log = logging.getLogger("vllm.outrider")


@final
class ServedTarget(Target):
    """What a drafter may know of the engine's model: its vocabulary and its tokenizer."""

    def __init__(self, vocab_size: int, tokenizer: Any, max_length: int) -> None:
        self.vocab_size, self.tokenizer, self.max_length = vocab_size, tokenizer, max_length
        self.offers = frozenset({"tokenizer"} if tokenizer else ())
        self.trees = False

    def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
        raise NotImplementedError("vLLM scores what is drafted")


@final
class OutriderProposer:
    """What vLLM loads by `{"method": "custom_class", "model": "outrider.serving.vllm.OutriderProposer"}`.

    Each request has a drafter of its own while it lasts. A drafter that draws is asked for its
    likeliest tokens: vLLM takes drafts as point masses, of which the likeliest are accepted most
    often. That is lossless for any draft; a drafter with a good distribution that the token rule would have
    drawn from gives up, at temperature 1, what acceptance by min(1, p/q) has over p(x).

    Raises:
        ConfigError: vLLM is of another version, or the drafter needs more than tokens.
    """

    def __init__(
        self,
        vllm_config: Any,
        make: Callable[[], Drafter] | None = None,
        version: str | None = None,
    ) -> None:
        check_version(version)
        self._gamma = int(vllm_config.speculative_config.num_speculative_tokens)
        model = vllm_config.model_config
        self._longest = int(model.max_model_len)
        self._make = make or from_environment
        self._target = ServedTarget(int(model.get_vocab_size()), _tokenizer(model), self._longest)
        self._requests = Requests(self._fresh)

    def propose(
        self,
        sampled_token_ids: Sequence[Sequence[int]],
        num_tokens_no_spec: NDArray[np.int32],
        token_ids_cpu: NDArray[np.int32],
        slot_mappings: Any = None,
    ) -> list[list[int]]:
        """Returns a draft for each row of the batch, none where its request is not drafted for.

        sampled_token_ids: what each row was just given; nothing while its prompt is being read.
        num_tokens_no_spec, token_ids_cpu: the length of each row's text, and its ids.
        """
        lengths = num_tokens_no_spec.tolist()
        drafted = [
            row
            for row, sampled in enumerate(sampled_token_ids)
            if sampled and lengths[row] < self._longest
        ]
        texts = (token_ids_cpu[row, : lengths[row]] for row in drafted)
        drafts: list[list[int]] = [[] for _ in sampled_token_ids]
        for row, request in zip(drafted, self._requests.follow(texts), strict=True):
            drafts[row] = self._draft(request)
        return drafts

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: there is no model here."""

    def _draft(self, request: Request) -> list[int]:
        # The engine adds a token to whatever is accepted.
        room = min(self._gamma, self._longest - len(request.ids) - 1)
        if request.failed or room < 1:
            return []
        pen = Pen(sampling=GREEDY, chance=UNUSED, vocab_size=self._target.vocab_size, gamma=room)
        try:
            self._requests.drafter(request).propose(request.context, pen)
            return list(pen.finish().tokens)
        except Exception:  # the request goes on without drafts, and the server with it
            log.exception("%s failed: this request goes on without drafts", self._title)
            self._requests.give_up(request)
            return []

    def _fresh(self) -> Drafter:
        drafter = self._make()
        name = type(drafter).__name__
        if missing := sorted(drafter.needs - self._target.offers):
            raise ConfigError(
                f"drafter {name} needs {', '.join(missing)}: inside vLLM a drafter sees tokens alone"
            )
        if drafter.trees or drafter.asks:
            raise ConfigError(f"drafter {name} writes trees: vLLM takes chains alone")
        drafter.bind(self._target)
        self._title = title(drafter)
        return drafter


def title(drafter: Drafter) -> str:
    """Returns what a drafter is called in the log: its class, and the distribution that it is of."""
    owners = (each.distribution for each in installed().entries if each.product is type(drafter))
    return f"drafter {type(drafter).__name__} of {next(owners, 'no plugin')}"


def from_environment() -> Drafter:
    """Returns the drafter that the environment variable describes.

    Raises:
        ConfigError: it is not set, or describes none.
    """
    from outrider.plugins.config import build

    text = os.environ.get(VARIABLE)
    if not text:
        raise ConfigError(f"{VARIABLE}: expected a drafter's config: see `outrider serve-config`")
    try:
        node = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{VARIABLE}={text!r}: expected a JSON object") from error
    drafter: Drafter = build(node)
    return drafter


def check_version(version: str | None = None) -> None:
    """Raises `ConfigError` unless vLLM's interface is the one that this was written for."""
    if version is None:
        import vllm  # type: ignore[import-not-found]

        version = str(vllm.__version__)
    if not version.startswith(SUPPORTED):
        known = ", ".join(f"{each}x" for each in SUPPORTED)
        raise ConfigError(
            f"vllm {version}: expected {known}, whose interface for custom drafters this is"
        )


def _tokenizer(model: Any) -> Any:
    """Returns the engine's tokenizer, None where it was told to do without."""
    if getattr(model, "skip_tokenizer_init", False):
        return None
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model.tokenizer)
