"""Echo: a drafter that repeats the last few tokens of the text."""

from outrider import ConfigError, Context, Drafter, Pen, hookimpl


class Echo(Drafter):
    """Drafts the last `period` tokens over and over."""

    def __init__(self, period: int = 2) -> None:
        if period < 1:
            raise ConfigError(f"drafter.period={period}: expected a whole number of at least 1")
        self.period = period

    def propose(self, context: Context, pen: Pen) -> None:
        text = context.tokens[-self.period :]
        while pen.open:
            text.append(pen.write(text[-self.period] if len(text) >= self.period else text[0]))


@hookimpl
def register_drafters(register):
    register("echo", Echo)


@hookimpl
def config_search_paths():
    return ["pkg://outrider_echo.conf"]
