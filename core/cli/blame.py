"""An error that reached the console script as one line that names the part it comes from."""

import sys

from outrider.base.errors import ProcessEnded, described
from outrider.plugins.roles import ROLES

WHERE = "; --traceback shows where"
"""What is said behind an error of a part's own code."""


def blamed(error: BaseException) -> str:
    """Returns an error as one line that names the part whose code raised it, if it was one's."""
    from outrider.decoding.blame import PARTS, culprit, told  # torch, which a run has anyway

    found = culprit(error, {**PARTS, "report": ROLES["report"].kind or ()})
    return f"{told(*found, error) if found else described(error)}{WHERE}"


def exit_of_a_part(error: SystemExit) -> str | None:
    """Returns the line for a `sys.exit` in a part's code, which would end a command silently."""
    if isinstance(error, ProcessEnded) or "outrider.decoding.blame" not in sys.modules:
        return None
    from outrider.decoding.blame import CODE, culprit

    found = culprit(error)
    return blamed(error) if found and found[0] != CODE else None
