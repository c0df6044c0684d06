"""The page of a replay: the verdicts on published results, the numbers that gave them, and the table as it was printed.

One file that needs nothing else, in the style of a study's page; the same replay gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

import ostinato
from ostinato.files import write_atomic
from ostinato.judge.published import PublishedTable
from ostinato.judge.replay import judge_replay, measurements_of
from ostinato.report import numbers
from ostinato.report.page import asset, environment, table_html
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.report.verdicts import block
from ostinato.study.replays import Replay


def write_replay(replay: Replay, source: str, reports: Path, out: Path | None = None) -> Path:
    """Write the page to `out`, else into the folder `reports`, and return its path.  source: as the command line names the replay."""
    name = f"replay-{replay.name}.html"
    path = out or reports / name
    path = path / name if path.is_dir() else path
    write_atomic(path, page(replay, source))
    return path


def page(replay: Replay, source: str) -> str:
    """The page as text."""
    judgement, script = judge_replay(replay), asset("page.js")
    given = {(None, one.name): one for one in replay.predictions}
    return environment().get_template("replay.html.j2").render(
        replay=replay,
        version=ostinato.__version__,
        block=block(replace(judgement, notes=()), given, {}, source, None),
        notes=judgement.notes,
        published=table_html(published_table(measurements_of(replay).table)),
        command=f"ostinato judge {source}",
        style=Markup(asset("page.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )  # fmt: skip


def published_table(table: PublishedTable) -> Table:
    """As it was printed, a gain with the sign of a gain."""
    columns = (Column("arm", number=False), Column("seed"), *(Column(str(one)) for one in table.columns))
    rows = []
    for line in table.lines:
        cells = [line.cells.get(one) for one in table.columns]
        seed = Cell(numbers.NONE if line.seed is None else str(line.seed), line.seed)
        shown = (Cell(numbers.NONE) if cell is None else Cell(cell.shown, cell.value, cell.text) for cell in cells)
        rows.append(Row((Cell(line.arm, line.arm, line.place), seed, *shown)))
    return Table("published", f"As printed, in {table.name}: a gain is positive where the arm is better", columns, tuple(rows))
