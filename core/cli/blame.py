"""An error that reached the console script as one line that names the part it comes from."""

from outrider.base.errors import described
from outrider.plugins.roles import ROLES

WHERE = "; --traceback shows where"
"""What is said behind an error of a part's own code."""


def blamed(error: BaseException) -> str:
    """Returns an error as one line that names the part whose code raised it, if it was one's."""
    from outrider.decoding.blame import PARTS, culprit  # imports torch, which a run has anyway

    found = culprit(error, {**PARTS, "report": ROLES["report"].kind or ()})
    who = "{} {} raised ".format(*found) if found else ""
    return f"{who}{described(error)}{WHERE}"
