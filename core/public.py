"""What `import outrider` offers; `outrider` itself imports it on first use."""

__all__ = [
    "AllOf", "BatchTarget", "Budget", "Chance", "Command", "Comparison", "CompositeDrafter",
    "ConfigError", "Constraint", "Context", "Counts", "Draft", "Drafter", "DrafterError",
    "DrafterExample", "Fixed", "Generation", "OutriderError", "Pen", "Penalties", "PluginError",
    "Policy", "PolicyExample", "Round", "SampledChance", "Sampling", "Scores", "Session", "Target",
    "TargetError", "TokenLogprob", "Tokens", "Verdict", "Verifier", "VerifierExample", "build",
    "compare", "compose", "decode", "decode_together", "generate", "generate_together", "grammar",
    "hookimpl", "json_schema", "regex",
]  # fmt: skip

from typing import TYPE_CHECKING

from outrider.base.errors import ConfigError, DrafterError, OutriderError, PluginError, TargetError
from outrider.constraints.guidance import grammar, json_schema, regex
from outrider.constraints.penalties import Penalties
from outrider.contract.chance import Chance, SampledChance
from outrider.contract.constraint import AllOf, Constraint
from outrider.contract.context import Context, Tokens
from outrider.contract.draft import Draft, Verdict
from outrider.contract.drafter import Drafter, DrafterExample
from outrider.contract.pen import Pen
from outrider.contract.policy import Fixed, Policy, PolicyExample
from outrider.contract.round import Counts, Round, TokenLogprob
from outrider.contract.sampling import Sampling
from outrider.contract.target import Session, Target
from outrider.contract.verifier import Budget, Scores, Verifier, VerifierExample
from outrider.decoding.batches.batch_target import BatchTarget
from outrider.decoding.composite import CompositeDrafter
from outrider.decoding.decode import decode, decode_together
from outrider.decoding.generation import Generation, generate, generate_together
from outrider.plugins.hookspecs import Command, hookimpl

if TYPE_CHECKING:  # `outrider` imports them on first use, with Hydra and scipy
    from outrider.cli.compared import Comparison, compare  # noqa: TC004
    from outrider.plugins.config import build, compose  # noqa: TC004
