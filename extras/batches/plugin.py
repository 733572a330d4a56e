"""Says what writes several texts at once."""

from outrider.plugins.hookspecs import hookimpl


@hookimpl
def batching() -> str:
    return "outrider.extras.batches.batching:SideBySide"
