"""pass@1: whether the code of an answer passes its test."""

import re
from typing import final

from outrider.data.prompts import CodeTest, Prompt
from outrider.data.score import Judge, Score
from outrider.extras.scores.sandbox import isolation, passes, require_sandbox

FENCED = re.compile(r"```[^\n]*\n(.*?)(?:\n```|\Z)", re.DOTALL)
"""Code in Markdown, up to its end or that of the answer."""

ENDS = ("\nclass ", "\ndef ", "\n#", "\nif ", "\nprint(")
"""Where the continuation of a function ends (2107.03374)."""


@final
class Pass1(Score):
    """pass@1 for one answer (2107.03374): 1 if its code passes the test, else 0.

    Raises:
        ConfigError: the system can't limit what code uses.
    """

    needs = "prompt, test and entry_point"

    def __init__(self) -> None:
        require_sandbox()

    def judge(self, prompt: Prompt, turn: int) -> Judge | None:
        task = prompt.code
        if task is None or turn > 1:
            return None
        return lambda answer: float(passes(program(task, answer)))

    def note(self) -> str:
        return f"pass1 runs the code that the target writes, with limits: {isolation()}"


def program(task: CodeTest, answer: str) -> str:
    """Returns the code to run: the function that an answer gives, and its test.

    The answer may hold the whole function, in Markdown or not, or continue the prompt.
    """
    fenced = FENCED.search(answer)
    code = fenced[1] if fenced else answer
    defines = re.compile(rf"^(?:async )?def {re.escape(task.entry_point)}\b", re.MULTILINE)
    if defines.search(code):
        before = defines.split(task.prompt)[0]  # imports, and functions to use
        code = f"{before}\n{code}"
    else:
        end = min((i for stop in ENDS if (i := code.find(stop)) >= 0), default=len(code))
        code = task.prompt + code[:end]
    return f"{code}\n\n{task.test}\n\ncheck({task.entry_point})\n"
