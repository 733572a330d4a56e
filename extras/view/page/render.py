"""Fills the templates of this folder."""

import base64
import hashlib
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE = "outrider.extras.view.page"

SCRIPTS = ("page", "play")
"""The script of every page, and the one that the page to write a text has besides."""


def render(template: str, **values: Any) -> str:
    """Returns a template filled with values, with its style and its script."""
    return _environment().get_template(f"{template}.html.jinja").render(**values)


@cache
def script(name: str) -> str:
    """Returns one of the pages' scripts."""
    return _environment().get_template(f"{name}.js.jinja").render()


@cache
def script_hashes() -> str:
    """Returns the hashes of the scripts for a content security policy, so that no other runs."""
    digests = [hashlib.sha256(script(name).encode()).digest() for name in SCRIPTS]
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


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
    environment.globals["script"] = lambda name: Markup(script(name))
    return environment
