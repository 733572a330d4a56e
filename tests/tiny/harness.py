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


class Task:
    """A task of sums, as far as an audit asks it: its filter leaves the last digit of an answer."""

    config = SimpleNamespace(task="adds")
    _instances: list[Any]

    def __init__(self, kind: str) -> None:
        self.OUTPUT_TYPE = kind

    def build_all_requests(self) -> None:
        how = {"until": ["\n"], "max_gen_toks": 8}
        asked = [((f"Q: 1+{more}?", how), str(1 + more)) for more in (1, 2, 3)]
        self.instances = [SimpleNamespace(args=it, doc=doc, filtered_resps={}) for it, doc in asked]

    def apply_filters(self) -> None:
        for instance in self._instances:
            instance.filtered_resps["digit"] = [*filter(str.isdigit, *instance.resps)][-1]

    def process_results(self, doc: str, results: list[str]) -> dict[str, float]:
        return {"exact_match": float(results == [doc])}


def get_task_dict(names: list[str]) -> dict[str, Task]:
    kinds = {"adds": "generate_until", "ranks": "multiple_choice"}
    return {name: Task(kinds[name]) for name in names}


def stand_in() -> None:
    """Puts the class in the library's place, unless the library is installed."""
    if "lm_eval" in sys.modules or find_spec("lm_eval") is not None:
        return
    names = ("lm_eval", "lm_eval.api", "lm_eval.api.model")
    modules = {name: ModuleType(name) for name in names}
    modules["lm_eval.api.model"].LM = LM  # type: ignore[attr-defined]
    sys.modules.update(modules)
