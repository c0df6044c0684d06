"""Templates: the environment that escapes everything, and HTML of single tables for the page and the notebook."""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING

from ostinato.report.tables import Table

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup


@functools.cache
def environment() -> jinja2.Environment:
    """Autoescaping is on for every template; a name that is not given is an error."""
    import jinja2  # a plan in a terminal needs no templates

    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(asset), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["marked"] = marked
    return made


def marked(text: str) -> Markup:
    """Escaped, and what stands between backticks as code; a backtick without its other is one."""
    from markupsafe import Markup, escape

    *pairs, last = text.split("`")
    if len(pairs) % 2:
        last = f"{pairs.pop()}`{last}"
    return Markup("").join([Markup("<code>%s</code>") % part if place % 2 else escape(part) for place, part in enumerate(pairs)]
                           + [escape(last)])  # fmt: skip


def asset(name: str) -> str:
    """The text of a file in templates/."""
    return resources.files("ostinato.report").joinpath("templates", name).read_text(encoding="utf-8")


def table_html(table: Table) -> Markup:
    """One table as the page shows it: scrolls when it is wide, sorts when a script is there."""
    from markupsafe import Markup

    return Markup(environment().get_template("table.html.j2").render(table=table.on_page()))


def notebook(*tables: Table) -> str:
    """Tables for `_repr_html_`: the same HTML with a small style of its own, in the colours of the notebook."""
    shown = (f'<div class="ostinato">{table_html(table)}</div>' for table in tables if table.rows)
    return f"<style>{asset('notebook.css')}</style>" + "".join(shown)
