"""The drafts of a batch's texts: from one drafter for all of them, where there is one."""

from collections.abc import Mapping
from typing import final

from outrider.base.calling import calling
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.decoding.calls import call_drafter
from outrider.decoding.clock import now
from outrider.decoding.rounds import Proposal, blank_sheet, proposal, propose
from outrider.decoding.run import ActiveText, Run


@final
class Proposing:
    """Has drafts written for texts that are scored together."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._drafter: Drafter | None = None  # of all texts, once there were several

    def proposals(self, texts: Mapping[int, ActiveText]) -> dict[int, Proposal]:
        """Returns each text's proposal, as `propose` does; time that they share is divided."""
        run, count = self._run, len(texts)
        drafter = self._shared(texts)
        if drafter is None:
            return {index: propose(run, text, count) for index, text in texts.items()}
        began = now()
        contexts = {index: text.context for index, text in texts.items()}
        sheets = {index: blank_sheet(run, text, count) for index, text in texts.items()}
        limit = None if run.draft_timeout is None else count * run.draft_timeout
        call_drafter(drafter, [(contexts[index], Pen(sheets[index])) for index in texts], limit)
        seconds = (now() - began) / count
        return {
            index: proposal(text, contexts[index], sheets[index], seconds)
            for index, text in texts.items()
        }

    def _shared(self, texts: Mapping[int, ActiveText]) -> Drafter | None:
        """Returns the drafter of all texts; None until there are several, and if there is none."""
        own = next(iter(texts.values())).drafter
        if self._drafter is None and len(texts) > 1:
            with calling("drafter", own):
                self._drafter = own.open_together()
        return self._drafter
