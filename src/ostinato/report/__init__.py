"""Tables, figures and the page of a study, from the store alone. No torch.

Names are imported when they are first asked for: a plan needs none of the statistics behind results.
"""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {
    "Cell": "tables", "Column": "tables", "PlanSheet": "plan", "Results": "results", "Row": "tables", "Table": "tables",
    "to_rich": "tables", "write_report": "write",
}  # fmt: skip
__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'ostinato.report' has no attribute {name!r}")
    return getattr(importlib.import_module(f"ostinato.report.{_WHERE[name]}"), name)
