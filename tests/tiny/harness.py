"""What lm-evaluation-harness asks of a model, for where it is not installed."""

import sys
from abc import ABC, abstractmethod
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any


class LM(ABC):
    """The abstract class of lm_eval 0.4.13, as far as its evaluator calls it."""

    def __init__(self) -> None:
        self.cached: dict[Any, Any] = {}
        self.cache_hook = SimpleNamespace(add_partial=self._cache)

    def _cache(self, kind: str, arguments: Any, answer: Any) -> None:
        self.cached[kind, str(arguments)] = answer

    @abstractmethod
    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]: ...

    @abstractmethod
    def loglikelihood_rolling(self, requests: list[Any]) -> list[float]: ...

    @abstractmethod
    def generate_until(self, requests: list[Any]) -> list[str]: ...


def stand_in() -> None:
    """Puts the class in the library's place, unless the library is installed."""
    if "lm_eval" in sys.modules or find_spec("lm_eval") is not None:
        return
    names = ("lm_eval", "lm_eval.api", "lm_eval.api.model")
    modules = {name: ModuleType(name) for name in names}
    modules["lm_eval.api.model"].LM = LM  # type: ignore[attr-defined]
    sys.modules.update(modules)
