"""Registers the built-in drafters; each is imported when it is first used."""

from outrider.plugins.hookspecs import Register, hookimpl

DRAFTERS = {
    "none": "none:NoDraft",
    "random": "random:Random",
    "unigram": "ngram:unigram",
    "bigram": "ngram:bigram",
    "online": "online:Online",
    "prompt_lookup": "prompt_lookup:PromptLookup",
    "small_lm": "small_lm:SmallLM",
    "pard": "pard:Pard",
    "hierarchy": "hierarchy:Hierarchy",
    "hybrid": "hybrid:Hybrid",
    "bandit": "bandit:Bandit",
    "suffix": "suffix:Suffix",
    "rest": "rest:Rest",
    "lookahead_decoding": "lookahead_decoding:LookaheadDecoding",
    "token_recycling": "token_recycling:TokenRecycling",
    "medusa": "medusa:Medusa",
    "mlp_speculator": "mlp_speculator:MLPSpeculator",
    "hydra": "hydra:Hydra",
    "redrafter": "redrafter:ReDrafter",
    "eagle": "eagle:Eagle",
    "eagle3": "eagle3.drafter:Eagle3",
    "peagle": "peagle.drafter:PEagle",
    "dflash": "dflash.drafter:DFlash",
    "mtp": "mtp.drafter:Mtp",
    "swift": "swift:Swift",
    "early_exit": "early_exit:EarlyExit",
    "assistant": "assistant:Assistant",
}
"""By name, the module in `outrider.drafters`, and the class or function in it."""


@hookimpl
def register_drafters(register: Register) -> None:
    for name, place in DRAFTERS.items():
        register(name, f"outrider.drafters.{place}")
