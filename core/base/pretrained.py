"""Names for annotations of transformers' classes, which take long to import."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel as Model
    from transformers import PreTrainedTokenizerBase as Tokenizer
    from transformers.cache_utils import Cache
else:
    Cache = Model = Tokenizer = Any

__all__ = ("Cache", "Model", "Tokenizer")
