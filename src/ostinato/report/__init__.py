"""Tables, figures and the page of a study, from the store alone. No torch.

Names are imported when they are first asked for: a plan needs none of the statistics behind results.
"""

from __future__ import annotations

from ostinato.lazy import given_when_asked

_WHERE = {
    "Cell": "tables", "Column": "tables", "PlanSheet": "plan", "Results": "results", "Row": "tables", "Table": "tables",
    "to_rich": "tables", "write_report": "write",
}  # fmt: skip
__all__ = list(_WHERE)
__getattr__ = given_when_asked(__name__, _WHERE)
