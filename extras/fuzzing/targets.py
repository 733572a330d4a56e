"""The targets of the fuzzer: tables with ends and zeros, and tiny random transformers."""

import copy
from functools import cache
from typing import Annotated, Any

import torch

from outrider.base.bounds import OneOf, check
from outrider.contract.target import Target
from outrider.extras.fuzzing.example import Settings
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget

TABLE = "table"
MODELS = ("llama", "gpt2", "mistral", "gemma2", "t5")
"""The kinds of models: with rotary and learned positions, sliding windows, and an encoder."""
MODEL_VOCAB = 7
POSITIONS = 24
WINDOW = 4


def make_target(settings: Settings) -> Target:
    """Returns the target that an example describes.

    The settings are:

    kind: "table", or one of MODELS.
    eos: the ids that end a text.
    max_length: the length of the longest text.
    vocab_size, order, sharpness, encoder: of a table, as for `TabularTarget`.
    seed: the seed of a table, or of a model's random weights.
    zeros: the share of a table's tokens with probability zero; each row keeps at least two others.

    Raises:
        ConfigError: there is no such kind.
    """
    values = dict(settings)
    kind, eos, longest = values.pop("kind"), values.pop("eos", ()), values.pop("max_length", None)
    if kind == TABLE:
        target: Target = _table(**values)
    else:
        check({"kind": Annotated[str, OneOf((TABLE, *MODELS))]}, {"kind": kind}, "example.target")
        target = copy.copy(_model_target(kind, **values))
    target.eos = frozenset(eos)
    if longest is not None:
        target.max_length = min(longest, target.max_length or longest)
    return target


@cache
def letters(vocab_size: int) -> Any:
    """Returns a tokenizer whose token i is the i-th letter; texts have spaces between letters."""
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {chr(ord("a") + token): token for token in range(vocab_size)}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="a"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    wrap: Any = PreTrainedTokenizerFast
    return wrap(tokenizer_object=backend)


def _table(zeros: float = 0.0, **settings: Any) -> TabularTarget:
    target = TabularTarget(**settings)
    target.tokenizer = letters(target.vocab_size)
    if zeros and target.vocab_size > 2:
        draws = torch.rand(
            target.table.shape, generator=torch.Generator().manual_seed(settings.get("seed", 0))
        )
        kept = draws.argsort(-1).argsort(-1) < 2  # by rank, two of each row
        target.table[(draws > 1 - zeros) & ~kept] = float("-inf")
    return target


@cache
def _model_target(kind: str, seed: int = 0) -> TransformersTarget:
    """Returns a random model in float64; its self-test runs once in a process."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _model(kind)
    return TransformersTarget(model.double().eval(), letters(MODEL_VOCAB), optimize="none")


def _model(kind: str) -> Any:
    import transformers

    common: dict[str, Any] = {"vocab_size": MODEL_VOCAB, "bos_token_id": None, "eos_token_id": None}
    if kind == "gpt2":
        config = transformers.GPT2Config(
            **common, n_embd=16, n_layer=3, n_head=2, n_positions=POSITIONS, initializer_range=0.5
        )
        return transformers.GPT2LMHeadModel(config)
    if kind == "t5":
        attention = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 12}
        t5_sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
        ids = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": None}
        t5: Any = transformers.T5Config
        made = t5(vocab_size=MODEL_VOCAB, initializer_factor=3.0, **attention, **t5_sizes, **ids)
        return transformers.T5ForConditionalGeneration(made)
    more: dict[str, Any] = {} if kind == "llama" else {"sliding_window": WINDOW}
    if kind == "gemma2":
        more |= {"head_dim": 8, "query_pre_attn_scalar": 8}
    sizes = {"hidden_size": 16, "intermediate_size": 32, "max_position_embeddings": POSITIONS}
    layers = {"num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1}
    more |= {**sizes, **layers, "pad_token_id": None, "initializer_range": 0.5}
    decoder = transformers.AutoConfig.for_model(kind, **common, **more)
    auto: Any = transformers.AutoModelForCausalLM
    return auto.from_config(decoder)
