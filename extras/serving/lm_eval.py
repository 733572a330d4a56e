"""A target for lm-evaluation-harness: exact log-likelihoods, and texts by any drafter and rule."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

from lm_eval.api.model import LM

from outrider.base.bounds import Count, checked
from outrider.base.errors import nearest, require
from outrider.contract.chance import SampledChance
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.decoding.generation import generate_together
from outrider.plugins.parts import make

LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""What tasks call the most tokens of an answer; the first that is set counts."""

SAMPLING = ("temperature", "top_k", "top_p", "min_p")

KNOWN = ("until", "do_sample", *LENGTHS, *SAMPLING)
"""The settings of answers that are understood."""


@final
@checked("lm_eval")
class OutriderLM(LM):  # type: ignore[misc]
    """A model of lm-evaluation-harness 0.4.

    >>> lm_eval.simple_evaluate(OutriderLM("smollm2", verifier="lenient"), tasks=["gsm8k"])

    Log-likelihoods are the target's own, whatever the drafter and the rule; answers are written
    with them. So tasks that ask for answers show what a lossy rule costs.

    target, drafter, verifier: names or instances, as for `outrider.generate`.
    gamma, budget: as for `outrider.decode`.
    seed: of tasks that sample; each answer has random decisions of its own.
    batch_size: how many answers are written at once.
    max_new_tokens: the most tokens of an answer, where a task does not say.
    """

    def __init__(  # noqa: PLR0913  the parts and settings of a run, by name
        self,
        target: Target | str,
        drafter: Drafter | str = "none",
        verifier: Verifier | str = "token",
        *,
        gamma: Count = 5,
        budget: Count | None = None,
        seed: int = 0,
        batch_size: Count = 1,
        max_new_tokens: Count = 256,
    ) -> None:
        super().__init__()
        self._target: Target = make("target", target)
        require(self._target.tokenizer is not None, "target", target, "one with a tokenizer")
        self._parts: tuple[Drafter, Verifier] = (
            make("drafter", drafter),
            make("verifier", verifier),
        )
        self._lengths: dict[str, Any] = {"gamma": gamma, "budget": budget, "batch_size": batch_size}
        self._seed, self._max_new_tokens = seed, max_new_tokens

    @property
    def tokenizer(self) -> Any:
        return self._target.tokenizer

    @property
    def tokenizer_name(self) -> str:
        """Returns what the harness calls the tokenizer in its caches."""
        return str(self.tokenizer.name_or_path).replace("/", "__")

    def chat_template(self, chat_template: bool | str = False) -> str:
        """Returns the template that `apply_chat_template` uses."""
        return str(self.tokenizer.chat_template or "") if chat_template else ""

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """Returns a conversation as text."""
        return str(
            self.tokenizer.apply_chat_template(
                chat_history,
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=not add_generation_prompt,
            )
        )

    def loglikelihood(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Returns each continuation's log-probability after its context, and whether it is greedy.

        A context that is too long loses its beginning.
        """
        answers = []
        for request in requests:
            answer = self._score(*self._pair(*request.args))
            self.cache_hook.add_partial("loglikelihood", request.args, answer)
            answers.append(answer)
        return answers

    def loglikelihood_rolling(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[float]:
        """Returns each text's log-probability, in windows as long as the target reads.

        Each token is scored once, after as many others as can be read.
        """
        answers = []
        for request in requests:
            (text,) = request.args
            ids = self._ids(text)
            whole, size = [self._prefix, *ids], self._target.max_length or max(1, len(ids))
            answer = 0.0
            for start in range(0, len(ids), size):
                before = max(0, min(start + size, len(ids)) - size)
                answer += self._score(whole[before : start + 1], ids[start : start + size])[0]
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, answer)
            answers.append(answer)
        return answers

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """Returns each context's answer, without the string that ended it.

        Raises `ConfigError` if a task has a setting that is not understood.
        """
        answers = [""] * len(requests)
        alike: defaultdict[str, list[int]] = defaultdict(list)
        for number, request in enumerate(requests):
            alike[json.dumps(request.args[1], sort_keys=True)].append(number)
        for numbers in alike.values():
            settings = requests[numbers[0]].args[1]
            contexts = [requests[number].args[0] for number in numbers]
            for number, text in zip(numbers, self._texts(contexts, settings, numbers), strict=True):
                answers[number] = text
                self.cache_hook.add_partial("generate_until", requests[number].args, text)
        return answers

    def _texts(
        self, contexts: Sequence[str], settings: Mapping[str, Any], numbers: Sequence[int]
    ) -> Iterator[str]:
        for name in settings:
            require(name in KNOWN, "gen_kwargs", name, nearest(name, KNOWN))
        found = (settings[name] for name in LENGTHS if settings.get(name) is not None)
        count = int(next(found, self._max_new_tokens))
        until = settings.get("until") or []
        stops = [until] if isinstance(until, str) else [stop for stop in until if stop]
        given = {name: settings[name] for name in SAMPLING if settings.get(name) is not None}
        samples = settings.get("do_sample", given.get("temperature", 0) > 0)
        sampling = Sampling(**({"temperature": 1.0} | given)) if samples else Sampling()
        longest = self._target.max_length
        room = None if longest is None else -max(1, longest - count)
        generations = generate_together(
            self._target,
            [self._ids(context)[room:] for context in contexts],
            *self._parts,
            sampling=sampling,
            chances=[SampledChance.seeded(self._seed, number) for number in numbers],
            max_new_tokens=count,
            stop=stops,
            **self._lengths,
        )
        for generation in generations:
            text = self.tokenizer.decode(generation.tokens, skip_special_tokens=True)
            for stop in stops:
                text = text.split(stop)[0]
            yield text

    @property
    def _prefix(self) -> int:
        """Returns the id that texts without a context begin with."""
        tokenizer = self.tokenizer
        ids = (tokenizer.bos_token_id, tokenizer.eos_token_id)
        return next(int(token) for token in ids if token is not None)

    def _ids(self, text: str, *, begins: bool = True) -> list[int]:
        """Returns a text's ids, with those that a tokenizer puts before and after a whole text."""
        special = begins and not text.startswith(self.tokenizer.decode([self._prefix]))
        return list(self.tokenizer(text, add_special_tokens=special)["input_ids"])

    def _pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Returns the ids of both, split where those of the context alone end."""
        if not (kept := context.rstrip()):
            ids = self._ids(context + continuation, begins=False)
            return (ids[:1], ids[1:]) if ids[:1] == [self._prefix] else ([self._prefix], ids)
        before, whole = self._ids(kept), self._ids(context + continuation)
        return before, whole[len(before) :]

    def _score(self, context: Sequence[int], continuation: Sequence[int]) -> tuple[float, bool]:
        """Returns the log-probability of a continuation, and whether each token is the likeliest.

        The last token is not read: nothing comes after it.
        """
        longest = self._target.max_length
        limit = f"from 1 to {longest} tokens"
        fits = len(continuation) > 0 and (longest is None or len(continuation) <= longest)
        require(fits, "continuation", list(continuation), limit)
        start = 0 if longest is None else max(0, len(context) + len(continuation) - longest - 1)
        with self._target.computing():
            session = self._target.open(list(context[start:]))
            rows = session.score(Draft.chain(continuation[:-1])).double().log_softmax(-1)
        chosen = rows[range(len(continuation)), list(continuation)]
        return float(chosen.sum()), bool((chosen == rows.amax(-1)).all())
