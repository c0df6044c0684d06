"""Loss laws with the recurrence exponent: what one recurrence is worth, from anyone's table of runs (numpy, and scipy inside functions)."""

from __future__ import annotations

from ostinato.lazy import given_when_asked

_WHERE = {
    "RunTable": "table", "read_table": "table", "Rows": "law", "log_loss": "law", "objective": "law", "equivalent": "law", "applied": "law",
    "Fit": "fit", "fit_law": "fit", "runs_table": "study", "Findings": "findings", "analyse": "findings",
}  # fmt: skip
__all__ = [*_WHERE]
__getattr__ = given_when_asked(__name__, _WHERE)
