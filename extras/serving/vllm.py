"""OutriderProposer: runs a drafter that needs only tokens in vLLM 0.32, from its Hydra config."""

import json
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from jaxtyping import Int32
from numpy.typing import NDArray

from outrider.base.errors import ConfigError, refusing
from outrider.base.pretrained import TRUST, read_pretrained
from outrider.contract.chance import SampledChance
from outrider.contract.context import Context, Tokens
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.sampling import Sampling
from outrider.contract.sheet import Sheet
from outrider.contract.target import Session, Target
from outrider.plugins.registry import installed

VARIABLE = "OUTRIDER_DRAFTER"
"""The environment variable that holds the drafter's config, a JSON object."""

GREEDY = Sampling()
"""Makes a drafter that draws write its likeliest tokens."""

UNUSED = SampledChance.seeded(0)
"""A pen needs a chance; at temperature 0 nothing depends on it."""

log: logging.Logger = logging.getLogger("vllm.outrider")

PATIENCE = 8
"""Steps that a request may miss before its drafter is free for another."""

Row = Int32[np.ndarray, "tokens"]
"""The text of a row, as the engine stores it."""


@final
@dataclass(slots=True)
class Request:
    """A request that the engine is working on, or one that waits for another.

    drafter: None before the first draft, and after the drafter has failed.
    idle: steps since the request was last in the batch.
    ids: its text, in a list that only grows, for the drafter.
    raw: the same text as the bytes of a row, for fast comparison.
    """

    drafter: Drafter | None = None
    failed: bool = False
    idle: int = 0
    ids: list[int] = field(default_factory=list)
    raw: bytearray = field(default_factory=bytearray)

    def leads_to(self, row: Row) -> bool:
        """Returns whether a row begins with this text. Costs no more than a memcmp."""
        count = len(self.ids)
        may_lead = count <= len(row) and (count == 0 or bool(row[count - 1] == self.ids[-1]))
        return may_lead and row[:count].tobytes() == self.raw

    def grow(self, row: Row) -> None:
        """Appends the tokens of its row that are new."""
        new = row[len(self.ids) :]
        self.ids += new.tolist()
        self.raw += new.tobytes()

    def wait(self) -> None:
        """Counts a step in which it has no row; after several it waits for another text."""
        self.idle += 1
        if self.idle == PATIENCE:
            self.failed, self.ids, self.raw = False, [], bytearray()


@final
class ServedTarget(Target):
    """What a drafter can know of the engine's model: its vocabulary, tokenizer and longest text."""

    def __init__(self, vocab_size: int, tokenizer: Any, max_length: int) -> None:
        self.vocab_size = vocab_size
        self.tokenizer = tokenizer
        self.max_length: int | None = max_length
        self.offers: frozenset[str] = frozenset({"tokenizer"} if tokenizer else ())
        self.trees = False

    def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
        raise NotImplementedError("vLLM scores what is drafted")


@final
class OutriderProposer:
    """The class that vLLM loads for a speculative config with `"method": "custom_class"`.

    The config names it as `"model": "outrider.extras.serving.vllm.OutriderProposer"`.

    Each request has a drafter of its own while it lasts. vLLM takes drafts as point masses, which
    is lossless for any draft, and accepts a token with probability p(x). So a drafter that draws is
    asked for its likeliest tokens, which are accepted most often. At temperature 1 a drafter with a
    good distribution q loses what min(1, p(x) / q(x)) would have accepted beyond p(x).

    make: makes an unbound drafter. Defaults to the one that `OUTRIDER_DRAFTER` describes.

    Raises `ConfigError` if the drafter needs more than tokens.
    """

    def __init__(self, vllm_config: Any, make: Callable[[], Drafter] | None = None) -> None:
        self._gamma = int(vllm_config.speculative_config.num_speculative_tokens)
        model = vllm_config.model_config
        self._longest = int(model.max_model_len)
        self._make = make or from_environment
        self._target = ServedTarget(int(model.get_vocab_size()), _tokenizer(model), self._longest)
        self._requests: list[Request] = [Request(self._new_drafter(), idle=PATIENCE)]

    def propose(
        self,
        sampled_token_ids: Sequence[Sequence[int]],
        num_tokens_no_spec: NDArray[np.int32],
        token_ids_cpu: NDArray[np.int32],
        slot_mappings: Any = None,
    ) -> list[list[int]]:
        """Returns a draft for each row of the batch, empty if the row gets none this time.

        sampled_token_ids: the newest tokens of each row, none while its prompt is being read.
        num_tokens_no_spec, token_ids_cpu: the length of each row's text, and its ids.
        slot_mappings: unused; vLLM passes it.
        """
        lengths = num_tokens_no_spec.tolist()
        drafted = [
            row
            for row, sampled in enumerate(sampled_token_ids)
            if sampled and lengths[row] < self._longest
        ]
        texts = (token_ids_cpu[row, : lengths[row]] for row in drafted)
        drafts: list[list[int]] = [[] for _ in sampled_token_ids]
        for row, request in zip(drafted, self._follow(texts), strict=True):
            drafts[row] = list(self._draft(request).tokens)
        return drafts

    def _follow(self, rows: Iterable[Row]) -> list[Request]:
        """Returns the request of each row, with its text updated.

        The engine passes rows in any order, without saying whose they are, so requests are told
        apart by their text. When one ends, its drafter goes to another. That is safe since a
        drafter's caches are keyed by the text, and saves loading its weights or tables again.
        """
        unmatched, current = self._requests, list[Request]()
        for row in rows:
            # Unless rows have moved, the first request left is the right one; the last ones wait.
            index = next((i for i, known in enumerate(unmatched) if known.leads_to(row)), None)
            request = Request() if index is None else unmatched.pop(index)
            request.grow(row)
            request.idle = 0
            current.append(request)
        for request in unmatched:  # it has ended, or pauses, as when the engine preempts it
            request.wait()
        self._requests = [*current, *sorted(unmatched, key=lambda request: request.idle)]
        return current

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: vLLM calls it, and there is no model to load."""

    def _draft(self, request: Request) -> Draft:
        """Returns a draft for a request; it is empty if there is no room, or the drafter failed."""
        # The engine adds one token to those that are accepted.
        room = min(self._gamma, self._longest - len(request.ids) - 1)
        if request.failed or room < 1:
            return Draft()
        vocab_size = self._target.vocab_size
        pen = Pen(Sheet(sampling=GREEDY, chance=UNUSED, vocab_size=vocab_size, gamma=room))
        try:
            request.drafter = request.drafter or self._new_drafter()
            request.drafter.propose(Context(Tokens(request.ids, len(request.ids))), pen)
            return pen.sheet.finish()
        except Exception:  # the request goes on without drafts, and the server with it
            log.exception("%s failed: this request goes on without drafts", self._title)
            request.drafter, request.failed = None, True
            return Draft()

    def _new_drafter(self) -> Drafter:
        drafter = self._make()
        name = type(drafter).__name__
        is_foreign = drafter.needs - self._target.offers or drafter.observes
        if is_foreign or drafter.trees or drafter.asks:
            expected = "one that writes chains, and needs no more than tokens"
            raise ConfigError(f"drafter {name} can't go into vLLM: expected {expected}")
        drafter.bind(self._target)
        entries = installed().of("drafter").values()
        owners = (entry.distribution for entry in entries if entry.product is type(drafter))
        self._title = f"drafter {name} of {next(owners, 'no plugin')}"
        return drafter.open()


def from_environment() -> Drafter:
    """Returns the drafter that the environment variable describes.

    Raises `ConfigError` if the variable is not set, or holds no drafter's config.
    """
    from outrider.plugins.config import build

    text = os.environ.get(VARIABLE)
    if not text:
        raise ConfigError(f"{VARIABLE}: expected a drafter's config: see `outrider serve-config`")
    with refusing(f"{VARIABLE}={text!r}: expected a JSON object", ValueError):
        node = json.loads(text)
    drafter: Drafter = build(node)
    return drafter


def _tokenizer(model: Any) -> Any:
    """Returns the engine's tokenizer, or None if the engine runs without one."""
    if getattr(model, "skip_tokenizer_init", False):
        return None
    from transformers import AutoTokenizer

    trust = {TRUST: bool(getattr(model, TRUST, False))}  # as the engine was started
    return read_pretrained(AutoTokenizer, model.tokenizer, **trust)
