"""The logit lens: the loss of every target if the head read the stream after each application (nostalgebraist, "interpreting GPT", 2020).

Every row of the lens is normed by its own statistics, by the final norm and its weight, and goes through head and softcap. The last row is
the model's loss. The probe reads the stream of an ordinary forward pass and leaves it bit-identical.

Shapes, as suffixes of names: A applications, N targets.
"""

from __future__ import annotations

import numpy as np

from ostinato.analysis.applications import after
from ostinato.measure.columns import labelled, table
from ostinato.measure.context import Context, Taken
from ostinato.measure.readings import nats, streams
from ostinato.measure.subject import Subject
from ostinato.measure.windows import Windows, over_windows


def take(subject: Subject, context: Context) -> Taken:
    """One row a target: `target`, its index among the Targets, and float32 nats `input`, `after_0`, `after_1`, …

    `input` is read before the first application.  Raises TrainingError when one window does not fit into memory.
    """

    def read(windows: Windows) -> tuple[np.ndarray, np.ndarray]:
        rows: list[np.ndarray] = []
        streams(subject, windows, lambda _, x_ND: rows.append(nats(subject, x_ND, windows.wanted_N)))
        return windows.place_N, np.stack(rows)

    found = over_windows(read, context, subject.device, "reading the lens")
    return Taken(table(found, ["input", *(after(label.index) for label in subject.labels)]), labelled(subject))
