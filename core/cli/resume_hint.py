"""Says what to run after a comparison that was interrupted."""

import shlex
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from rich.console import Console

from outrider.base.terminal import plain
from outrider.lab.runs.store import RunFolder, unfinished


def advice(run_folder: RunFolder) -> str | None:
    """Returns how to continue an interrupted run; None if it has measured nothing."""
    count = sum(measurement.error is None for measurement in run_folder.measurements)
    if not count:
        return None
    hydra, saved = HydraConfig.get(), f"{count} measurements are saved"
    if hydra.mode == RunMode.MULTIRUN:
        where = f"hydra.sweep.dir={hydra.sweep.dir}"
        return f"{saved}: the same command with resume=true {where} continues"
    replaced = ("resume", "hydra.run.dir", "hydra.mode")
    kept = [
        override
        for override in (*hydra.overrides.task, *hydra.overrides.hydra)
        if override.partition("=")[0] not in replaced
    ]
    words = [*kept, "resume=true", f"hydra.run.dir={run_folder.path}"]
    command = shlex.join(["outrider", str(hydra.job.config_name), *words])
    return f"{saved}. To continue: {command}"


def say_what_is_unfinished(console: Console) -> None:
    """Prints how to continue the newest run beside this one, if it is unfinished."""
    output = Path(HydraConfig.get().runtime.output_dir)
    is_sweep = HydraConfig.get().mode == RunMode.MULTIRUN
    path = None if is_sweep else unfinished(output.parent)
    if path is not None:
        settings = f"resume=true hydra.run.dir={path}"
        line = f"an unfinished run is in {path}: to continue it, add {settings} to its command"
        console.print(plain(line), soft_wrap=True)
