"""The sections of a page about what was measured of its checkpoints beside their losses, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ostinato.analysis import ArmResult
from ostinato.analysis.measured import otherwise
from ostinato.errors import StoreError
from ostinato.report import accounts, classes, depths, gradients, heads, lens, models, noise, pairs_panel, phi, skips, speed, states
from ostinato.report.section import Section
from ostinato.store import Store
from ostinato.study.records import Study

MAKERS: tuple[Callable[[Study, Store, Sequence[ArmResult]], Section | None], ...] = (
    phi.section, accounts.section, classes.section, pairs_panel.section, lens.section, skips.section, heads.section, states.section,
    depths.section, gradients.section, speed.section, models.section, noise.section,
)  # fmt: skip
BY_TARGET = ("lens", "skips", "heads", "states", "depths")
"""Sections of measures that are taken on a number of targets."""


def sections(study: Study, store: Store, results: Sequence[ArmResult]) -> list[Section]:
    """Those that there are measurements for. One whose files are torn says so, and so does one that leaves out runs measured otherwise."""
    made = []
    for make in MAKERS:
        try:
            found = make(study, store, results)
        except StoreError as error:
            name = make.__module__.rpartition(".")[2]
            found = Section(f"torn-{name}", f"Not readable: {name}", f"{error.what}. Next: {error.fix}.")
        if found is not None and found.id in BY_TARGET and (others := otherwise(study, store, found.id)):
            found = replace(found, notes=(*found.notes, f"Measured on another number of targets, and not shown: {', '.join(others)}."))
        made += [found] if found is not None else []
    return made
