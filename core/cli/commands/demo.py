"""`outrider demo`: `compare` with settings that show the point in a few minutes."""

from outrider.cli.commands.compare import compare
from outrider.cli.settings import Compare


def demo(settings: Compare) -> float | None:
    """Compares eight drafters on a dozen prompts, as `compare` does."""
    return compare(settings)
