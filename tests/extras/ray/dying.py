"""A policy whose process is killed once, in the middle of a job of a sweep.

Run as a program, it is outrider, whose workers find this module and the folder `died`.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

from hydra.core.hydra_config import HydraConfig

from outrider import Policy
from outrider.cli import main as cli

ROUNDS = 12
"""It is killed in its twelfth round, when some questions are finished."""


class Dying(Policy):
    """Drafts gamma tokens; at gamma 2 it kills its process, unless the folder `DYING` exists.

    Before, it copies what the job has measured into that folder.
    """

    def __init__(self) -> None:
        self.rounds = 0

    def depth(self, gamma: int) -> int:
        self.rounds += 1
        mark = Path(os.environ["DYING"])
        if gamma == 2 and self.rounds == ROUNDS and not mark.exists():
            shutil.copytree(HydraConfig.get().runtime.output_dir, mark)
            os.kill(os.getpid(), signal.SIGKILL)
        return gamma


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parent))  # the sweep is checked before the workers start
    os.environ |= {"PYTHONPATH": str(Path(__file__).parent), "DYING": str(Path("died").resolve())}
    cli.main()
