"""Any text model of transformers: a hub id, a folder or a GGUF file. Its texts share passes."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, final

from outrider.base.bounds import checked
from outrider.base.errors import require
from outrider.base.pretrained import Model, Tokenizer
from outrider.base.terminal import remark
from outrider.base.waiting import waiting
from outrider.contract.chance import Chance
from outrider.contract.constraint import Constraint
from outrider.contract.context import Tokens
from outrider.contract.draft import Draft, Logits
from outrider.contract.sampling import Sampling
from outrider.contract.target import Scored, Session
from outrider.decoding.batches.batch_target import BatchTarget, Turn, score_one_by_one
from outrider.targets.batches.sessions import (
    TogetherSession,
    join_sessions,
    judge_sessions,
    open_sessions,
)
from outrider.targets.batches.writing import write, write_turns
from outrider.targets.defaults import Defaults, OwnDefaults
from outrider.targets.loading import Dtype, unpacked
from outrider.targets.model_settings import LOADED, OPTIONS, ModelSettings
from outrider.targets.passes.cached_model import (
    CACHE,
    HIDDEN,
    SOURCE,
    CachedModel,
    CachedSession,
    refuse_stateful,
)
from outrider.targets.passes.encoded import decoder_start
from outrider.targets.passes.engine import engine_of, engines, spreading_engine
from outrider.targets.passes.first_layers import depth
from outrider.targets.passes.masks import context_window
from outrider.targets.passes.recurrent import has_states
from outrider.targets.self_test import SelfTest, run_self_test, self_test
from outrider.targets.stored import STORED
from outrider.targets.stored_tests import stored_self_test
from outrider.targets.weight_files import WeightsOrigin, weight_files


@final
class TransformersTarget(BatchTarget):
    """A transformers model that writes text: a decoder, or an encoder-decoder such as T5.

    The encoder reads the prompt, once; the text begins with the decoder's start token.

    model: a hub id, a folder, a GGUF file, or a model that is already loaded: alone, beside its
        tokenizer as a pair, or in a pipeline of transformers. A folder may hold an adapter of PEFT,
        whose changes are added to the weights of its model.
    tokenizer: the tokenizer of a loaded model; otherwise it is loaded along with the model.
    dtype: float32, bfloat16, float16, float64, or auto: float32 on a CPU, and the checkpoint's own
        elsewhere.
    device: cpu, cuda, cuda:1, ..., or auto: the accelerator if there is one.
    optimize: the engine that runs the passes: packed stores the weights in the memory layout of
        the processor's kernels, which changes `model` in place; compile makes passes of fixed sizes
        into graphs (CUDA graphs on a GPU), each on its first use; none leaves the model unchanged;
        auto is packed for a decoder that is loaded here, on a CPU, and none for all others. A
        plugin may register more.
    quantize: int8 packs the weights of linear layers as eight bits, with a scale for each 32 inputs
        of an output, and rounds the inputs in the same way where the processor multiplies bytes:
        passes of a few rows take a third of the time, and the text is that of the rounded numbers.
        int4 packs them as four bits, but for the head. stored packs the weights of a GGUF file as
        they are, without a change of a number; inputs are rounded to fifteen bits there. All need
        float32 or bfloat16 on a CPU, and a C compiler. Defaults to None.
    device_map, quantization_config, attn_implementation: as transformers' `from_pretrained` takes
        them, for a model that is loaded here: devices by part of the model, or auto; weights of
        eight or four bits, or FP8; sdpa, eager, flex_attention, or a kind of flash attention.
    trust_remote_code: whether code that comes with the model may run, which a line then says.
    tensor_parallel: whether to spread a decoder over the processes of torchrun, by transformers'
        plan for it. The first process leads, and only it returns from this call; the others stay in
        the call to run their parts of the passes, and end when the first does.
    generation_config: apply, what the config sets besides sampling is in force for every
        text, as in transformers' `generate`: penalties, words left out, minimum lengths, forced
        tokens, stop strings; ignore, only its end tokens are. A line says what is in force.

    tested: the result of a few tiny passes when the target was made (`self_test`). If the model
        can't score a tree like its paths, the target takes only chains; if it can't read several
        texts at once, they are read one by one. For a model that is loaded here, the result is kept
        on disk.

    Raises `ConfigError` if there is no such model, `TargetError` for weights that do not fit, for a
    model that can't be rolled back, and for one whose text would depend on the drafts.
    """

    @checked("target")
    @waiting("loading the target")
    def __init__(  # noqa: PLR0913  how a model is loaded and run, by name
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        dtype: Dtype = "auto",
        device: str = "auto",
        optimize: str = "auto",
        quantize: str | None = None,
        device_map: str | dict[str, Any] | None = None,
        quantization_config: dict[str, Any] | None = None,
        attn_implementation: str | None = None,
        trust_remote_code: bool = False,
        tensor_parallel: bool = False,
        generation_config: Defaults = "apply",
    ) -> None:
        settings = ModelSettings(
            "target",
            dtype,
            device,
            optimize,
            quantize,
            device_map,
            quantization_config,
            attn_implementation,
            trust_remote_code,
        )
        is_name = isinstance(model, str | Path)
        name, spread = str(model) if is_name else "", None
        if tensor_parallel:
            settings.refuse(*OPTIONS, where="with target.tensor_parallel")
            is_plain = optimize in ("auto", "none")
            expected = "none or auto with target.tensor_parallel"
            require(is_plain, "target.optimize", optimize, expected)
            require(is_name, "model", type(model).__name__, "a hub id or a folder to be spread")
            require(device == "auto", "device", device, "auto: each rank takes that of its number")
            engine = spreading_engine()
            settings, spread = replace(settings, optimize=engine), engines()[engine]
        if is_name:
            model, tokenizer = settings.load(name, spread)
        else:
            settings.refuse(*OPTIONS, where=LOADED)
            model, tokenizer = unpacked(model, tokenizer)
        refuse_stateful(model)
        self._start = decoder_start(model)
        settings.run(model, is_own=is_name)
        self.lossless: bool = quantize in (None, STORED) and quantization_config is None
        test = stored_self_test if is_name else self_test  # the code of a loaded model is unknown
        self.tested: SelfTest = test(model, self._start)
        self.model: Model = model
        self.tokenizer: Tokenizer | None = tokenizer
        self._origin = WeightsOrigin(model, weight_files(name) if is_name else [], quantize)
        self._fingerprint: str | None = None
        self._describe()
        self.defaults: OwnDefaults = OwnDefaults(self.model, tokenizer, self.eos, generation_config)
        for line in self.defaults.lines():
            remark(line)

    def test_again(self) -> SelfTest | None:
        """Runs the self-test again, ignoring a kept result, and offers what holds now.

        Returns None if the engine has passes of a few sizes alone, which are not those of the test.
        """
        if not engine_of(self.model).can_repeat_test(self.model):
            return None
        self.tested = run_self_test(self.model, self._start)
        self._describe()
        return self.tested

    def _describe(self) -> None:
        """Sets the attributes of a target from the model's configuration and its self-test."""
        config = self.model.config.get_text_config()
        self.offers: frozenset[str] = self._offers(depth(self.model))
        self.vocab_size: int = int(config.vocab_size)
        self.max_length: int | None = context_window(self.model)
        eos = getattr(self.model.generation_config, "eos_token_id", None)
        self.eos: frozenset[int] = frozenset([eos] if isinstance(eos, int) else eos or ())
        self.trees: bool = not self.tested.trees
        if not self.trees:
            name = type(self.model).__name__
            self.no_trees: str = f"{name} takes only chains, since {self.tested.trees}"

    def _offers(self, layers: int) -> frozenset[str]:
        """Returns what drafters may need from a model with that many layers."""
        states = {f"{HIDDEN}.{number}" for number in range(layers)}
        offers = {SOURCE} if self._start else {"model", CACHE, HIDDEN, *states}
        if engine_of(self.model).spreads or has_states(self.model):
            offers -= {CACHE}  # a rank has only a part of it, and a state is not split by tokens
        return frozenset(offers | ({"tokenizer"} if self.tokenizer else set()))

    def begin(self, prompt: Sequence[int]) -> tuple[list[int], Tokens | None]:
        if not self._start:
            return super().begin(prompt)
        return list(self._start), Tokens(list(prompt))

    def constraint(
        self, ids: Sequence[int], source: Tokens | None, limit: int | None = None
    ) -> Constraint | None:
        return self.defaults.of_text(ids, source, limit)

    def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
        text, source = self.begin(tokens)
        return CachedSession(CachedModel(self.model, needs, source), text)

    def open_together(
        self, prompts: Sequence[Sequence[int]], needs: frozenset[str] = frozenset()
    ) -> list[Session]:
        if CACHE in needs or self.tested.batches:  # these need a cache for each text
            return [self.open(prompt, needs) for prompt in prompts]
        return [*open_sessions(self.model, prompts, needs)]

    def join(
        self,
        sessions: Sequence[Session],
        prompt: Sequence[int],
        needs: frozenset[str] = frozenset(),
    ) -> Session:
        batch = [session for session in sessions if isinstance(session, TogetherSession)]
        return join_sessions(batch, prompt) if batch else self.open(prompt, needs)

    def score_together(self, sessions: Sequence[Session], drafts: Sequence[Draft]) -> list[Logits]:
        return [logits for logits, _ in self.judge_together(sessions, drafts, ())]

    def judge_together(
        self, sessions: Sequence[Session], drafts: Sequence[Draft], judges: Sequence[Any]
    ) -> list[Scored]:
        batch = [session for session in sessions if isinstance(session, TogetherSession)]
        if len(batch) < len(sessions):
            return [(logits, None) for logits in score_one_by_one(sessions, drafts)]
        return judge_sessions(batch, drafts, judges)

    def read_ahead(self, session: Session, limit: int) -> int:
        return session.read_ahead(limit) if isinstance(session, TogetherSession) else 0

    def write(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        chances: Sequence[Chance],
        max_new_tokens: int,
    ) -> list[list[int]]:
        if self.tested.batches or self.defaults.in_force:
            return super().write(prompts, sampling, chances, max_new_tokens)
        return write(
            self.model, self.eos, prompts, sampling, chances, max_new_tokens=max_new_tokens
        )

    def write_turns(self, texts: Iterable[Sequence[Turn]]) -> Iterator[list[list[int]]]:
        if self.tested.batches or self.defaults.in_force:
            return super().write_turns(texts)
        return write_turns(self.model, self.eos, texts)

    def computing(self) -> AbstractContextManager[None]:
        return engine_of(self.model).threads(self.model)

    def fingerprint(self) -> str | None:
        if engine_of(self.model).spreads or not self._origin.is_known():
            return None  # no rank has all of the weights
        if self._fingerprint is None:
            digest = hashlib.sha256(self.model.config.to_json_string().encode())
            digest.update(str(self._start or "").encode())  # it may come from a generation config
            digest.update(str(self.defaults.in_force or "").encode())
            digest.update(self._origin.hash().encode())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint
