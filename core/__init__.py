"""Outrider: speculative decoding with any drafter.

>>> import outrider
>>> outrider.generate("smollm2", "Name three rivers.", drafter="prompt_lookup").text
"""

from outrider.beams.speculation import Beams, beam_search
from outrider.chance import Chance, EnumeratedChance, SampledChance
from outrider.context import Context, Tokens
from outrider.decoding import decode, decode_together
from outrider.draft import Draft
from outrider.drafter import Drafter
from outrider.errors import (
    ConfigError,
    DrafterError,
    OutriderError,
    PluginError,
    TargetError,
)
from outrider.generation import Generation, generate, generate_together
from outrider.guide import Guide
from outrider.hookspecs import hookimpl
from outrider.lookahead import Fixed, Lookahead
from outrider.metrics import Counts
from outrider.pen import Pen
from outrider.rounds import Round
from outrider.sampling import Sampling
from outrider.target import Session, Target
from outrider.verifier import Scores, Verdict, Verifier

__version__ = "0.1.0"

__all__ = [
    "Beams",
    "Chance",
    "ConfigError",
    "Context",
    "Counts",
    "Draft",
    "Drafter",
    "DrafterError",
    "EnumeratedChance",
    "Fixed",
    "Generation",
    "Guide",
    "Lookahead",
    "OutriderError",
    "Pen",
    "PluginError",
    "Round",
    "SampledChance",
    "Sampling",
    "Scores",
    "Session",
    "Target",
    "TargetError",
    "Tokens",
    "Verdict",
    "Verifier",
    "beam_search",
    "decode",
    "decode_together",
    "generate",
    "generate_together",
    "hookimpl",
]
