"""Registers the launcher of sweeps on Ray: `hydra/launcher=outrider_ray`."""

from outrider.plugins.hookspecs import Register, hookimpl


@hookimpl
def register_launchers(register: Register) -> None:
    register("outrider_ray", "outrider.extras.ray.launcher:RayLauncher", extra="ray")
