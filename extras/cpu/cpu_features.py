"""A processor's instructions for products of matrices."""

from pathlib import Path

X86_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8")
ARM_FLAGS = ("asimd", "asimdhp", "asimddp", "sve", "bf16", "i8mm")


def cpu_features() -> list[str]:
    """Returns those instructions of the first processor that products of matrices use."""
    flags = cpu_flags()
    return [flag for flag in (*X86_FLAGS, *ARM_FLAGS) if flag in flags]


def cpu_flags(file: Path = Path("/proc/cpuinfo")) -> set[str]:
    """Returns the flags of the first processor; none where there is no such file."""
    if not file.is_file():
        return set()
    lines = file.read_text(encoding="utf-8").splitlines()
    rows = (line.partition(":")[2] for line in lines if line.startswith(("flags", "Features")))
    return set(next(rows, "").split())
