"""Registers the cluster of `compare workers=N`."""

from outrider.plugins.hookspecs import hookimpl


@hookimpl
def config_search_paths() -> list[str]:
    return ["pkg://outrider.extras.ray.conf"]
