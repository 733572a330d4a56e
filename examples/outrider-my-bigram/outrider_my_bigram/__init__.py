"""The hooks, which name each part's module: it is imported when the part is first used."""

import outrider


@outrider.hookimpl
def register_drafters(register):
    register("my_bigram", "outrider_my_bigram.drafter:MyBigram")


@outrider.hookimpl
def config_search_paths():
    return ["pkg://outrider_my_bigram.conf"]
