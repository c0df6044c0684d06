"""Running a model over data and writing arrays: a loss per target, everything else that is measured, and whether losses are reproduced.

Names are imported when they are first asked for: which measures a run lacks is known without torch.
"""

from __future__ import annotations

from ostinato.lazy import given_when_asked

_WHERE = {"measure_losses": "losses"}
__all__ = list(_WHERE)
__getattr__ = given_when_asked(__name__, _WHERE)
