"""What each application is worth: the loss of every target with one of them skipped, and with a whole pass skipped.

A skipped application adds nothing to the stream; what moves the stream between applications (scalars, an injection, a norm at the end of a
pass) still acts. A pass is every application of that pass, partial ones too; of a model of one pass there is none to skip.

Shapes, as suffixes of names: N targets.
"""

from __future__ import annotations

import numpy as np

from ostinato.analysis.applications import without, without_pass
from ostinato.measure.columns import labelled, table
from ostinato.measure.context import Context, Taken
from ostinato.measure.readings import nats, stream
from ostinato.measure.subject import Subject
from ostinato.measure.windows import Windows, over_windows

SHARE = 4
"""With 16 applications that is still 5 forward passes over all of them; with and without an application it is the same targets, so the
difference has little noise."""


def skipped(subject: Subject) -> dict[str, frozenset[int]]:
    """Which applications each column of the table is without, by name: `whole`, `without_0`, …, `without_pass_1`, …"""
    found = {"whole": frozenset[int]()} | {without(label.index): frozenset({label.index}) for label in subject.labels}
    passes = sorted({label.pass_ for label in subject.labels})
    for pass_ in passes if len(passes) > 1 else ():
        found[without_pass(pass_)] = frozenset(label.index for label in subject.labels if label.pass_ == pass_)
    return found


def take(subject: Subject, context: Context) -> Taken:
    """One row a target: `target`, its index among the Targets, and float32 nats under the names of `skipped`.

    Every target is predicted once a column, so they are one in SHARE of those that the context asks for.
    Raises TrainingError when one window does not fit into memory.
    """
    columns = skipped(subject)

    def read(windows: Windows) -> tuple[np.ndarray, np.ndarray]:
        return windows.place_N, np.stack([nats(subject, stream(subject, windows, skip), windows.wanted_N) for skip in columns.values()])

    found = over_windows(read, context, subject.device, "skipping applications", SHARE)
    return Taken(table(found, list(columns)), labelled(subject))
