"""The page of a fit: what a table of runs tells of phi, in one file that needs nothing else, in the style of a study's page."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from markupsafe import Markup

import ostinato
from ostinato.errors import FitError
from ostinato.files import write_atomic
from ostinato.report.page import asset, environment, table_html
from ostinato.report.section import Section
from ostinato.scaling.findings import Findings

PAGES = (".html", ".htm")


def write_fit(found: Findings, section: Section, path: Path) -> Path:
    """Write the page to `path` (into it, as phi.html, where it is a folder), and return its path. Raises FitError as `page_path` does."""
    path = page_path(path, found.table.source)
    write_atomic(path, page(found, section))
    return path


def page_path(path: Path, source: Path | str) -> Path:
    """Where the page of `source` goes. Raises FitError where it would replace the table, or another file that is no page."""
    path = path / "phi.html" if path.is_dir() else path
    if not path.exists():
        return path
    own = Path(source).exists() and path.samefile(source)
    if own or path.suffix.lower() not in PAGES:
        raise FitError(f"--out {path}: that is {'the table itself' if own else 'a file that is there, and no page'}",
                       f"the page is a new file, or replaces one that ends in {' or '.join(PAGES)}",
                       f"--out {path.with_name(path.stem + '-phi.html')}")  # fmt: skip
    return path


def _runs(found: Findings) -> str:
    others = ", ".join(f"{one.rows} of {one.name}" for one in found.treatments)
    return f"{len(found.table)} runs" + (f", beside {others}" if others else "")


def page(found: Findings, section: Section) -> str:
    """The page as text; the same table gives the same bytes."""
    script = asset("page.js")
    figures = [{"caption": figure.caption, "note": figure.note, "svg": Markup(figure.svg)} for figure in section.figures]
    return environment().get_template("fit.html.j2").render(
        section=section, source=Path(found.table.source).name,
        runs=_runs(found), figures=figures,
        tables=[table_html(table) for table in section.tables], more=[table_html(table) for table in section.more],
        version=ostinato.__version__, style=Markup(asset("page.css")), script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )  # fmt: skip
