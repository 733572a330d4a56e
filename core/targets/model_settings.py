"""How a model is loaded and what runs it, by the same settings for targets and draft models."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, final

from outrider.base.errors import require
from outrider.base.pretrained import TRUST, Model, Tokenizer
from outrider.targets.loading import GGUF, Dtype, load
from outrider.targets.passes.encoded import decoder_start
from outrider.targets.passes.engine import AUTO, NONE, Engine, require_engine, use_engine
from outrider.targets.stored import STORED

OPTIONS = ("device_map", "quantization_config", "attn_implementation", TRUST)
"""The settings that transformers' `from_pretrained` takes as they are."""
LOADED = "for a model that is loaded already"


@final
@dataclass(frozen=True)
class ModelSettings:
    """How a model is loaded and run; `TransformersTarget` describes each setting.

    role: whose settings these are, for messages.
    quantize: "auto", for a draft model, is that of the model that comes with the package.

    Raises `ConfigError` if there is no such engine, or for a device beside a map of devices.
    """

    role: str
    dtype: Dtype = "auto"
    device: str = "auto"
    optimize: str = AUTO
    quantize: str | None = None
    device_map: str | dict[str, Any] | None = field(default=None, hash=False)
    quantization_config: dict[str, Any] | None = field(default=None, hash=False)
    attn_implementation: str | None = None
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        require_engine(self.optimize, f"{self.role}.optimize")
        is_free = self.device == AUTO or self.device_map is None
        expected = f"auto with {self.role}.device_map"
        require(is_free, f"{self.role}.device", self.device, expected)

    def given(self) -> dict[str, Any]:
        """Returns the settings that were chosen, by name."""
        values = {it.name: getattr(self, it.name) for it in fields(self)[1:]}
        free = {it.name: (it.default,) for it in fields(self)} | {"quantize": (None, AUTO)}
        return {name: value for name, value in values.items() if value not in free[name]}

    def refuse(self, *names: str, where: str) -> None:
        """Raises `ConfigError` for the first of some settings that was chosen.

        names: of the settings; all by default. where: why they say nothing, for the message.
        """
        for name, value in self.given().items():
            free = "null" if name in (*OPTIONS, "quantize") else AUTO
            free = "false" if name == TRUST else free
            is_refused = not names or name in names
            require(not is_refused, f"{self.role}.{name}", value, f"{free} {where}")

    def load(self, name: str, spread: Engine | None = None) -> tuple[Model, Tokenizer]:
        """Returns the model and tokenizer of a name; arguments and errors are those of `load`."""
        options = {key: value for key, value in self.given().items() if key in OPTIONS}
        if self.quantize != STORED:
            return load(name, self.dtype, self.device, spread, options)
        where = f"with {self.role}.quantize={STORED}"
        require(self.dtype in (AUTO, "float32"), f"{self.role}.dtype", self.dtype, f"auto {where}")
        require(self.device in (AUTO, "cpu"), f"{self.role}.device", self.device, f"cpu {where}")
        self.refuse(*OPTIONS, where=where)
        is_file = Path(name).suffix == GGUF
        require(is_file, f"{self.role}.quantize", STORED, "null, or a GGUF file as the model")
        return load(name, self.dtype, "cpu", stored_as=f"{self.role}.quantize")

    def run(self, model: Model, *, is_own: bool = True) -> None:
        """Prepares a model for its engine, in place.

        is_own: whether it was loaded here; the engine "auto" leaves others as they are, and those
            with an encoder.

        Raises `ConfigError` if the engine can't run or quantize it.
        """
        if not is_own and self.quantize == STORED:
            self.refuse("quantize", where=LOADED)
        is_plain = self.optimize == AUTO and (not is_own or decoder_start(model))
        quantize = None if self.quantize == AUTO else self.quantize
        use_engine(model, NONE if is_plain else self.optimize, quantize, role=self.role)
