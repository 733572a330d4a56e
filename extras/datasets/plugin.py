"""Registers the data sources."""

from outrider.plugins.hookspecs import Register, hookimpl

DATASETS = "outrider.extras.datasets"


@hookimpl
def register_data_sources(register: Register) -> None:
    for name in ("demo", "own", "jsonl"):
        register(name, f"{DATASETS}.jsonl:{name}")
    for name in ("csv", "lines", "text"):
        register(name, f"{DATASETS}.files:{name}")
    register("parquet", f"{DATASETS}.sources:parquet", extra="view")
    register("hub", f"{DATASETS}.sources:hub", extra="hub")
    register("speed_bench", f"{DATASETS}.speed_bench:speed_bench")
    register("deepspec", f"{DATASETS}.deepspec:deepspec")
