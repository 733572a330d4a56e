"""`outrider demo`: `compare` with settings that show the point in a few minutes."""

from omegaconf import DictConfig

from outrider.cli.commands.compare import compare


def demo(config: DictConfig) -> None:
    """Compares eight drafters on a dozen prompts, as `compare` does."""
    compare(config)
