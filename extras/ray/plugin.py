"""Registers the launcher of sweeps on Ray, and the cluster of `compare workers=N`."""

from outrider.plugins.hookspecs import Register, hookimpl


@hookimpl
def register_launchers(register: Register) -> None:
    register("outrider_ray", "outrider.extras.ray.launcher:RayLauncher", extra="ray")


@hookimpl
def config_search_paths() -> list[str]:
    return ["pkg://outrider.extras.ray.conf"]
