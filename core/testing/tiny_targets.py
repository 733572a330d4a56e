"""Tiny targets with known conditionals, and the drafts that drafters write for them."""

import copy
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from outrider.contract.chance import SampledChance
from outrider.contract.context import Context, Tokens
from outrider.contract.draft import Draft, Verdict
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.sampling import Sampling
from outrider.contract.sheet import Sheet
from outrider.contract.target import Target
from outrider.targets.passes.cached_model import CACHE, HIDDEN, SOURCE
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget

VOCAB_SIZE = 4
"""The vocabulary of the targets that drafters are checked on: 4 ** 3 texts of three tokens."""
SAMPLED = Sampling(temperature=1.0)


def bound_target(drafter: Drafter, vocab_size: int = VOCAB_SIZE) -> Target:
    """Returns a tiny target that offers what `drafter` needs, and binds the drafter to it.

    Raises `ConfigError` if the drafter can't be bound to a vocabulary of this size.
    """
    target = unbound_target(drafter, vocab_size)
    drafter.bind(target)
    return target


def opened(make: Callable[[], Drafter], vocab_size: int = VOCAB_SIZE) -> tuple[Drafter, Target]:
    """Returns a drafter that is opened for texts, and its target of `bound_target`."""
    drafter = make()
    target = bound_target(drafter, vocab_size)
    return drafter.open(), target


def unbound_target(drafter: Drafter, vocab_size: int = VOCAB_SIZE) -> Target:
    """Returns the target of `bound_target`, of which the drafter knows nothing."""
    if drafter.needs <= {SOURCE}:
        return TabularTarget(vocab_size, encoder=SOURCE in drafter.needs)
    return tiny_target(vocab_size)


def tiny_target(vocab_size: int, seed: int = 0) -> TransformersTarget:
    """Returns a random Llama with three layers in float64, and the tokenizer of `letters`.

    Each call returns a model of its own. It is made and tested once, and then copied.
    """
    target = copy.copy(_tiny_target(vocab_size, seed))
    target.model = copy.deepcopy(target.model)
    return target


@cache
def _tiny_target(vocab_size: int, seed: int) -> TransformersTarget:
    model = tiny_llama(
        seed,
        vocab_size=vocab_size,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=3,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        initializer_range=0.5,  # for distributions far from uniform that differ after every text
    )
    return TransformersTarget(model.double(), letters(vocab_size))


@cache
def letters(vocab_size: int) -> Any:
    """Returns a tokenizer whose tokens are letters."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    ids = {chr(ord("a") + token): token for token in range(vocab_size)}
    backend = Tokenizer(models.WordLevel(ids, unk_token="a"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    backend.decoder = decoders.ByteLevel()  # grammars need to know the bytes of a token
    wrap: Any = PreTrainedTokenizerFast
    return wrap(tokenizer_object=backend)


def tiny_llama(seed: int, **sizes: Any) -> Any:
    """Returns a random Llama with two heads in float32. sizes: the rest of its config."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(num_attention_heads=2, num_key_value_heads=1, **sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = LlamaForCausalLM(config)
    return model.eval()


def context_after(
    drafter: Drafter, target: Target, prompt: Sequence[int], text: Sequence[int] = ()
) -> Context:
    """Returns the context after a prompt and a text, with the features that the drafter needs."""
    before, source = target.begin(prompt)
    tokens = [*before, *text]
    needs_features = any(name == CACHE or name.startswith(HIDDEN) for name in drafter.needs)
    if not needs_features or len(tokens) < 2:
        return Context(Tokens(tokens), source, prompt_length=len(before))
    session = target.open(tokens[:-1], drafter.needs)
    session.score(Draft())
    session.commit(Verdict((), tokens[-1]))
    return Context(Tokens(tokens), None, session.features(), len(before))


def write_drafts(
    drafter: Drafter,
    target: Target,
    contexts: Sequence[Context],
    *,
    gamma: int,
    sampling: Sampling = SAMPLED,
    seed: int = 0,
) -> list[Draft]:
    """Returns the drafts after several contexts, written in one batch.

    seed: of the first draft; each further one gets the next seed.
    """
    budget = gamma * 4 if drafter.trees else None
    chances = [SampledChance.seeded(seed + index) for index in range(len(contexts))]
    sheets = [
        Sheet(sampling, chance, target.vocab_size, gamma, budget=budget) for chance in chances
    ]
    drafter.propose_batch(list(zip(contexts, map(Pen, sheets), strict=True)))
    return [sheet.finish() for sheet in sheets]


def draft_on(sheet: Sheet, drafter: Drafter, context: Context) -> Draft:
    """Returns the draft that `drafter` writes on a sheet."""
    drafter.propose(context, Pen(sheet))
    return sheet.finish()


def write_draft(drafter: Drafter, target: Target, context: Context, **options: Any) -> Draft:
    """Returns the draft after `context`. options: those of `write_drafts`."""
    return write_drafts(drafter, target, [context], **options)[0]


def draft_after(
    drafter: Drafter,
    target: Target,
    prompt: Sequence[int],
    gamma: int,
    *,
    text: Sequence[int] = (),
    **options: Any,
) -> Draft:
    """Returns the draft after a prompt and a text. options: others of `write_drafts`."""
    context = context_after(drafter, target, prompt, text)
    return write_draft(drafter, target, context, gamma=gamma, **options)


def same_draft(one: Draft, other: Draft) -> bool:
    """Returns whether two drafts have the same tokens, parents and distributions."""
    if (one.tokens, one.parents) != (other.tokens, other.parents):
        return False
    return all(
        (p is None and q is None) or (p is not None and q is not None and torch.allclose(p, q))
        for p, q in zip(one.probs, other.probs, strict=True)
    )
