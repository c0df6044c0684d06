"""The sections of a page about what was measured of its checkpoints beside their losses, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ostinato.analysis import ArmResult
from ostinato.report import classes, depths, gradients, heads, lens, models, pairs_panel, skips, speed, states
from ostinato.report.section import Section
from ostinato.store import Store
from ostinato.study.records import Study

MAKERS: tuple[Callable[[Study, Store, Sequence[ArmResult]], Section | None], ...] = (
    classes.section, pairs_panel.section, lens.section, skips.section, heads.section, states.section, depths.section, gradients.section,
    speed.section, models.section,
)  # fmt: skip


def sections(study: Study, store: Store, results: Sequence[ArmResult]) -> list[Section]:
    """Those that there are measurements for. Raises StoreError when a stored file is torn."""
    return [found for make in MAKERS if (found := make(study, store, results)) is not None]
