"""What a running study looks like from outside: the state of every run, the work done, and the time that is left."""

from __future__ import annotations

from dataclasses import dataclass

STATES = ("waiting", "running", "elsewhere", "done", "reused", "failed", "stopped")


@dataclass(frozen=True)
class RunView:
    """One run. state: one of STATES (elsewhere: another process works on it; reused: it was done before). None: not known yet.

    measuring: the share of the losses at this point that is measured, while it is not training.
    """

    arm: str
    seed: int
    state: str
    tokens: int
    tokens_total: int
    loss: float | None = None
    tokens_per_s: float | None = None
    seconds_left: float | None = None
    error: str | None = None
    measuring: float | None = None

    @property
    def name(self) -> str:
        return f"{self.arm}, seed {self.seed}"


@dataclass(frozen=True)
class StudyView:
    """All runs that were asked for. work: of all of them, in seconds by the calibration or in FLOPs; seconds: since the launch;
    stopping: no more are begun."""

    runs: tuple[RunView, ...]
    work_done: float
    work_total: float
    seconds: float
    seconds_left: float | None
    stopping: bool = False

    @property
    def share(self) -> float:
        """Of the work, from 0 to 1."""
        return min(1.0, self.work_done / self.work_total) if self.work_total else 1.0

    def count(self, *states: str) -> int:
        """How many runs are in one of these states."""
        return sum(run.state in states for run in self.runs)


def duration(seconds: float | None) -> str:
    """0:07, 12:30, 3:05:00; … while it is not known."""
    if seconds is None:
        return "…"
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
