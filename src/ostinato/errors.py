"""The one base error. Every message says what is wrong (with its value), the rule, and what to do next."""

from __future__ import annotations


class OstinatoError(Exception):
    """An error that a person caused or can mend; the command line prints it without a traceback and exits with 2.

    what: what is wrong, with the offending value.  rule: the rule that it breaks.  fix: the next step to take.
    """

    def __init__(self, what: str, rule: str = "", fix: str = ""):
        self.what, self.rule, self.fix = what, rule, fix
        super().__init__("\n".join(part for part in (what, rule and f"rule: {rule}", fix and f"try:  {fix}") if part))


class StudyError(OstinatoError):
    """A study file that cannot be read or does not make sense."""


class ScheduleError(OstinatoError):
    """A schedule that does not parse; `column` (from 1) is where it goes wrong in `text`."""

    def __init__(self, text: str, column: int, what: str, rule: str = "", fix: str = ""):
        self.text, self.column = text, column
        super().__init__(f"schedule {text[:80]!r}, column {column}: {what}", rule, fix)


class ClaimError(OstinatoError):
    """The text of a prediction that does not parse, or names what is not there; `column` (from 1) is where in `text`."""

    def __init__(self, text: str, column: int, what: str, rule: str = "", fix: str = ""):
        self.text, self.column = text, column
        first = max(0, min(column - 40, len(text) - 80))
        shown = ("…" if first else "") + " ".join(text[first : first + 80].split()) + ("…" if len(text) > first + 80 else "")
        super().__init__(f"{shown!r}, column {column}: {what}", rule, fix)


class DataError(OstinatoError):
    """Text, a tokenizer or shards that cannot be used."""


class StoreError(OstinatoError):
    """A store, a run or a checkpoint that is missing, torn, locked or of another make."""


class InUse(StoreError):
    """A folder of the store that another process works on."""


class FitError(OstinatoError):
    """A table of runs that cannot be read, or that cannot tell what it is asked."""


class TrainingError(OstinatoError):
    """A run that cannot start or go on (a non-finite loss, a budget smaller than one step)."""
