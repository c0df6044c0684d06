"""Tables with one row a target and one column an application, a pass or a number of passes, and what their columns are.

Shapes, as suffixes of names: C columns, N targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ostinato.measure.subject import Subject


def table(found: Sequence[tuple[np.ndarray, np.ndarray]], names: Sequence[str]) -> pa.Table:
    """`target` int64 and one float32 column a name, by target.  found: (place [N], values [C, N]) of each pass, one at least."""
    place_N, values_CN = np.concatenate([place for place, _ in found]), np.concatenate([values for _, values in found], 1)
    order = np.argsort(place_N, kind="stable")
    columns = {name: pa.array(values_N[order].astype(np.float32)) for name, values_N in zip(names, values_CN, strict=True)}
    return pa.table({"target": pa.array(place_N[order]), **columns})


def labelled(subject: Subject) -> dict[str, Any]:
    """What is said beside a table: which layer and pass each application is."""
    return {"applications": [label.record() for label in subject.labels]}
