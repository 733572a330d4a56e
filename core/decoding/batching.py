"""Batching: how several texts are written at once, which a plugin brings."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pkgutil import resolve_name
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import ConfigError, PluginError, described
from outrider.base.pretrained import Model
from outrider.contract.chance import Chance
from outrider.contract.round import Round
from outrider.contract.sampling import Sampling
from outrider.contract.target import Session, Target
from outrider.decoding.run import ActiveText, Run
from outrider.plugins.registry import installed


class Batching(ABC):
    """Writes several texts of a target at once, each as it would be written alone.

    target: the class of targets that score several texts in one pass.
    checks: where the conformance kit finds the checks of what is asked of a target.
    """

    target: ClassVar[type[Any]]
    checks: ClassVar[str]

    @abstractmethod
    def rounds(
        self,
        run: Run,
        prompts: Sequence[Sequence[int]],
        needs: frozenset[str],
        size: int,
        begin: Callable[[int, Session], ActiveText],
    ) -> Iterator[tuple[int, Round]]:
        """Yields the rounds of the texts of several prompts, each with the index of its prompt.

        needs: the features that all sessions keep.
        size: the most texts in progress at once.
        begin: makes the text of a prompt, by its index, in a session.
        """

    @abstractmethod
    def write(
        self,
        target: Target,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        chances: Sequence[Chance],
        max_new_tokens: int,
    ) -> list[list[int]]:
        """Returns the target's own continuation of each prompt, including the final `eos`.

        chances: one for each prompt; the tokens are drawn with the target's part of it, as those
            that the target adds to drafts are.
        """

    @abstractmethod
    def batch_differs(
        self,
        model: Model,
        text: Sequence[int],
        others: Sequence[int],
        logits: Float[Tensor, "tokens vocab"],
        *,
        branches: bool,
    ) -> bool:
        """Returns whether a model's logits are wrong for texts that it reads together.

        text: at least seven tokens, the last four of which are drafted. logits: after each of its
            tokens, from a pass for this text alone.
        others: two tokens that differ from the first two that are drafted.
        branches: whether the draft is a tree, in which the others are siblings.
        """


def batching() -> Batching:
    """Returns what the plugins bring for several texts.

    Raises:
        ConfigError: no plugin brings anything.
        PluginError: it can't be imported, or is no class of `Batching`.
    """
    place = installed().batching
    if place is None:
        raise ConfigError("several texts at once: expected a plugin with the hook batching()")
    try:
        part: object = resolve_name(place)()
    except (ImportError, AttributeError) as error:
        raise PluginError(f"batching {place!r} can't be imported: {described(error)}") from error
    if not isinstance(part, Batching):
        raise PluginError(f"batching {place!r} is {part!r}: expected a class of Batching")
    return part
