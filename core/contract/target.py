"""Target: the role that owns the model whose text is wanted."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.context import Tokens
from outrider.contract.draft import Draft
from outrider.contract.sampling import Sampling
from outrider.contract.verifier import Verdict
from outrider.errors import ConfigError, TargetError, require

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


Path = tuple[int, ...]
"""The ids of a text behind its prompt."""

PathScorer = Callable[[Sequence[Path]], Float[Tensor, "paths vocab"]]
"""From paths behind a prompt to the target's logits after each, in one pass."""


def check_finite(logits: Float[Tensor, "*rows vocab"]) -> None:
    """Raises `TargetError` where a row of a target's logits is the score of no distribution."""
    if not torch.isfinite(logits.amax(-1)).all():
        raise TargetError("the target gave logits with NaN, infinity or no finite entry")


class Session(ABC):
    """One text under way on a target, with the key-value cache that belongs to it."""

    @abstractmethod
    def score(self, draft: Draft) -> Float[Tensor, "nodes+1 vocab"]:
        """Returns the logits after the context (row 0) and after each node (row i + 1).

        One forward pass scores the whole draft. A `commit` follows each `score`.
        """

    @abstractmethod
    def commit(self, verdict: Verdict) -> None:
        """Keeps the accepted path and the next token, and drops the rest of the draft."""

    def features(self) -> dict[str, Tensor]:
        """Returns what the session was opened to keep of the text scored so far, by name."""
        return {}


class Target(ABC):
    """A model to speed up, with what decoding must know of it.

    vocab_size: the number of logits.
    max_length: the longest text in tokens, None where there is no bound.
    eos: the ids that end a text.
    offers: what drafters may ask for with `needs`.
    trees: whether drafts may branch. no_trees: what to say where they may not.
    tokenizer: a transformers tokenizer, where the target has one.
    model: a transformers model, where the target has one.
    """

    vocab_size: int
    max_length: int | None = None
    eos: frozenset[int] = frozenset()
    offers: frozenset[str] = frozenset()
    trees: bool = True
    no_trees: str = "the target takes only chains"
    tokenizer: "PreTrainedTokenizerBase | None" = None
    model: Any = None

    def begin(self, prompt: Sequence[int]) -> tuple[list[int], Tokens | None]:
        """Returns the ids that the text of a prompt begins with, and the encoder's input.

        Without an encoder the text begins with the prompt. A target that has one overrides this:
        the prompt is what the encoder reads, and the text begins with the decoder's start token.
        """
        return list(prompt), None

    @abstractmethod
    def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
        """Starts a text with the prompt `tokens`; sessions do not disturb each other.

        needs: the features to keep, out of what the target offers.
        """

    def open_together(
        self, prompts: Sequence[Sequence[int]], needs: frozenset[str] = frozenset()
    ) -> list[Session]:
        """Starts several texts at once, for `score_together`.

        A target that can score them in one pass overrides both.
        """
        return [self.open(prompt, needs) for prompt in prompts]

    def score_together(
        self, sessions: Sequence[Session], drafts: Sequence[Draft]
    ) -> list[Float[Tensor, "nodes+1 vocab"]]:
        """Returns what `Session.score` does, for some of the texts that were opened together."""
        return [session.score(draft) for session, draft in zip(sessions, drafts, strict=True)]

    def path_scorer(self, prompt: Sequence[int]) -> PathScorer:
        """Returns what scores continuations of a prompt: beams, of which all are scored in one pass.

        Each call is given paths, the ids behind the prompt, and returns the logits after each. Here
        every call reads the prompt again; a target with a cache overrides this.
        """
        ids = list(prompt)

        def score(paths: Sequence[Path]) -> Float[Tensor, "paths vocab"]:
            draft, nodes = Draft.of_paths(paths)
            logits = self.open(ids).score(draft)
            return torch.stack([logits[node + 1] for node in nodes])

        return score

    def fingerprint(self) -> str | None:
        """Returns what stands for the target's distributions in the key of a cached text.

        None where there is no such thing: its texts are then written anew each time.
        """
        return None

    def write(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        chances: Sequence[Chance],
        max_new_tokens: int,
    ) -> list[list[int]]:
        """Returns the target's own continuation of each prompt, up to and with an `eos`.

        The texts are independent of each other; a target that runs them at once overrides this.

        chances: one a prompt.
        """
        texts: list[list[int]] = []
        for prompt, chance in zip(prompts, chances, strict=True):
            session, text = self.open(prompt), list[int]()
            start = len(self.begin(prompt)[0])
            limit = min(max_new_tokens, (self.max_length or start + max_new_tokens) - start)
            while len(text) < limit and not (text and text[-1] in self.eos):
                token = chance.categorical(sampling.probs(session.score(Draft())[0]))
                session.commit(Verdict((), token))
                text.append(token)
            texts.append(text)
        return texts

    def encode(self, prompt: str | Sequence[int], *, chat: bool = False) -> list[int]:
        """Returns the ids of a prompt; ids pass through, checked.

        chat: wrap a string as a user's turn with the tokenizer's chat template, where the
            tokenizer has one.

        Raises:
            ConfigError: the prompt is empty, too long, or holds what is no id.
        """
        if isinstance(prompt, str):
            return self.encode_turns([prompt], chat=chat)
        return self._checked([int(token) for token in prompt], prompt)

    def encode_turns(self, turns: Sequence[str], *, chat: bool = False) -> list[int]:
        """Returns the ids of a conversation: the user's turns, with the answers between them.

        chat: as in `encode`; otherwise the turns are paragraphs.

        Raises:
            ConfigError: as `encode` does.
        """
        prompt = "\n\n".join(turns)
        require(prompt.strip() != "", "prompt", prompt, "some text")
        if self.tokenizer is None:
            raise ConfigError(f"prompt={prompt!r}: expected ids, the target has no tokenizer")
        if not (chat and getattr(self.tokenizer, "chat_template", None)):
            return self._checked(list(self.tokenizer(prompt)["input_ids"]), prompt)
        roles = ("user", "assistant")
        messages = [{"role": roles[i % 2], "content": turn} for i, turn in enumerate(turns)]
        text = str(
            self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        )
        tokens = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return self._checked(list(tokens), prompt)

    def _checked(self, tokens: list[int], prompt: str | Sequence[int]) -> list[int]:
        require(len(tokens) > 0, "prompt", prompt, "at least one token")
        for token in tokens:
            require(0 <= token < self.vocab_size, "prompt", token, f"ids below {self.vocab_size}")
        # A text wants room for one token more; what an encoder reads does not.
        spare = self.begin(tokens)[1] is not None
        if self.max_length is not None and len(tokens) >= self.max_length + spare:
            raise ConfigError(
                f"prompt of {len(tokens)} tokens: expected {'no more' if spare else 'fewer'} than"
                f" the context window of {self.max_length}"
            )
        return tokens
