"""Render: fills the templates of this folder."""

import base64
import hashlib
from functools import cache
from typing import TYPE_CHECKING, Any

from outrider.lab.intervals import Interval

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE = "outrider.lab.page"


def render(template: str, **values: Any) -> str:
    """Returns the page that a template makes of some values, with its style and its script."""
    return _environment().get_template(f"{template}.html.jinja").render(**values)


@cache
def script() -> str:
    """Returns the script of the pages."""
    return _environment().get_template("page.js.jinja").render()


def script_hash() -> str:
    """Returns what a content security policy says of the script, so that no other one runs."""
    digest = hashlib.sha256(script().encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def _environment() -> "Environment":
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(PACKAGE, "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals["script"] = lambda: Markup(script())
    environment.filters["figure"] = _figure
    environment.filters["interval"] = _interval
    return environment


def _figure(rate: Interval | None, digits: int) -> str:
    """Returns the figure of a rate, or a dash."""
    return "\u2013" if rate is None else f"{rate.value:.{digits}f}"


def _interval(rate: Interval | None, digits: int) -> str:
    """Returns the interval of a rate, or nothing if it has none."""
    if rate is None or rate.low is None or rate.high is None:
        return ""
    return f"{rate.low:.{digits}f} \u2013 {rate.high:.{digits}f}"
