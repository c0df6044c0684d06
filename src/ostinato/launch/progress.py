"""Live progress of a study: a bar for every running run and one for the study, or plain lines where the output is no terminal."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ostinato.launch.view import RunView, StudyView, duration
from ostinato.measure.all import MEASURES, inputs_by_measure

if TYPE_CHECKING:
    from ostinato.launch.jobs import Job
    from ostinato.launch.pool import Outcome
    from ostinato.study.records import Study

LINE_SECONDS = 30.0
MOST_BARS = 16
MOST_ARMS = 4  # that are named in a line, with their seeds
MUCH_MEASURING = 0.5  # of the work: more than that is said


@contextlib.contextmanager
def calibrating(console: Console | None, title: str = "calibrating this machine") -> Iterator[Callable[[str, float], None]]:
    """While the machine is calibrated: a bar with the time left, or one line; yields the function that is told (stage, share done)."""
    console = console or Console(highlight=False)
    if not (console.is_terminal or console.is_jupyter):
        began, last = time.monotonic(), float("-inf")

        def say(stage: str, share: float) -> None:
            nonlocal last
            if (now := time.monotonic()) - last >= LINE_SECONDS / 3:
                told = f": {share:.0%}, {duration(now - began)} so far ({stage})" if share else " …"
                console.print(f"{title}{told}", soft_wrap=True, markup=False)
                last = now

        yield say
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(28), TextColumn("{task.percentage:.0f}%"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(title, total=1.0)
        yield lambda stage, share: shown.update(task, completed=share, description=f"{title}: {stage}")


class Display:
    """Shows one launch on a console. Where it is not a terminal (or a notebook), a line is printed now and then instead of bars."""

    def __init__(self, study: Study, console: Console | None = None):
        self.study = study
        self.console = console or Console(highlight=False)
        self.live_here = self.console.is_terminal or self.console.is_jupyter
        self._live: Live | None = None
        self._last_line = time.monotonic()

    def message(self, text: str) -> None:
        """One line that stays."""
        self.console.print(escape(text), soft_wrap=True)

    # --- before

    @contextlib.contextmanager
    def preparing(self) -> Iterator[Callable[[str, int, int], None]]:
        """While the text is prepared; yields the function that is told (stage, done, total); what follows a colon in a stage may change."""
        since: dict[str, tuple[float, int]] = {}
        said: dict[str, float] = {}

        def words(stage: str, done: int, total: int) -> str:
            began, first = since.setdefault(stage.partition(": ")[0], (time.monotonic(), done))
            seconds = time.monotonic() - began
            left = seconds * (total - done) / (done - first) if done > first and seconds > 3 else None
            share = f" {done / total:.0%}" if total > 1 else ""
            return f"{stage}{share}{f', {duration(left)} left' if left and total > 1 else ''}"

        if not self.live_here:

            def line(stage: str, done: int, total: int) -> None:
                name, now = stage.partition(": ")[0], time.monotonic()
                text = words(stage, done, total)
                if now - said.get(name, -LINE_SECONDS) >= LINE_SECONDS:
                    self.message(f"preparing the text: {name if name not in said else text}")
                    said[name] = now

            yield line
            return
        with self.console.status("preparing the text") as status:
            yield lambda stage, done, total: status.update(escape(f"preparing the text: {words(stage, done, total)}"))

    def found(self, reused: Sequence[Job], due: Sequence[Job], slots: int) -> None:
        """What there is to do, and what was found done already."""
        if reused:
            others = [job for job in reused if job.folder.given().get("study") not in (None, self.study.name)]
            shared = f", {len(others)} of them for another study" if others else ""
            self.message(f"{_runs(len(reused))} found done already{shared}: {_names(reused)}")
        if due:
            at_once = f", {slots} at a time" if slots < len(due) else ""
            self.message(f"{_runs(len(due))} due{at_once}: {_names(due)}")
            share = sum(job.measuring_work for job in due) / sum(job.work for job in due)
            if share > MUCH_MEASURING:
                self.message(f"measuring is {share:.0%} of the work, most of it {_most_measuring(due)}")
        elif not reused:
            self.message("no run is due: every arm is contingent and none was named (--arm)")

    # --- while it runs

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Around the loop that calls `update`."""
        if not self.live_here:
            yield
            return
        with Live(console=self.console, auto_refresh=False, transient=True) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def update(self, view: StudyView) -> None:
        """Show the state of now."""
        if self._live:
            self._live.update(bars(view), refresh=True)
        elif not self.live_here and view.count("running") and time.monotonic() - self._last_line >= LINE_SECONDS:
            self._last_line = time.monotonic()
            self.message(line(view))

    def run_ended(self, job: Job, state: str, error: str | None) -> None:
        """One line for a run that has ended."""
        if state == "done":
            self.message(f"{job.name}: done{_measured(job)}")
        elif state == "failed":
            self.message(f"{job.name}: failed: {error}")
        else:
            self.message(f"{job.name}: saved and stopped")

    # --- after

    def ended(self, outcome: Outcome) -> None:
        """What came of it, and how to go on."""
        if outcome.interrupted:
            self.message(f"stopped; {_runs(_several(outcome.stopped))} left. What was trained is saved. Go on with:")
            self.message(f"  {outcome.command}")
        elif outcome.failed:
            done = _several(outcome.done + outcome.reused)
            self.message(f"{_runs(_several(outcome.failed))} failed, {done} done. Try the failed again with:")
            self.message(f"  {outcome.command}")
        elif outcome.done:
            self.message(f"all {_runs(_several(outcome.done + outcome.reused))} done, in {duration(outcome.seconds)}")


def _most_measuring(due: Sequence[Job]) -> str:
    """What takes most of the measuring of these runs, and what would take less."""
    by_part = Counter({"points": sum(job.measuring_work - job.taking_work for job in due)})
    for job in due:
        inputs = inputs_by_measure(job.measure, job.arm.model)
        for name, count in inputs.items():
            by_part[name] += job.taking_work * count / sum(inputs.values())
    most = max(by_part, key=lambda part: by_part[part])
    if most == "points":
        return "losses at the points of the study; with fewer points, or `evaluate: {targets: 100k}`, it is less"
    if most == "pairs":
        return "minimal pairs; without `measure: {pairs: …}` they are not scored, and `ostinato measure --only pairs` scores them later"
    less = "`measure: {targets: 4k}`" if MEASURES[most].text else "`measure: {take: [lens, skips]}`, for example,"
    return f"{most} ({MEASURES[most].about}); with {less} it is less"


def _several(rows: Sequence[dict[str, Any]]) -> int:
    """How many runs these are: two arms may share one."""
    return len({row["run"] for row in rows})


def bars(view: StudyView) -> Group:
    """The live picture: a bar a running run, and the study's."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "left", "right", "right", "right", "right"):
        table.add_column(justify=justify, no_wrap=True)
    running = [run for run in view.runs if run.state == "running"]
    for run in running[:MOST_BARS]:
        table.add_row(
            Text(run.name),
            ProgressBar(total=max(1, run.tokens_total), completed=run.tokens, width=28),
            *(Text(text) for text in _facts(run)),
        )
    done = view.count("done", "reused")
    table.add_row(Text("study", style="bold"), ProgressBar(total=1.0, completed=view.share, width=28), Text(f"{view.share:.0%}"),
                  Text(f"{done} of {len(view.runs)} runs"), Text(_others(view)), Text(f"{duration(view.seconds_left)} left"))  # fmt: skip
    note = [Text("saving …")] if view.stopping else []
    return Group(table, *note)


def line(view: StudyView) -> str:
    """The same in one line."""
    running = []
    for run in view.runs:
        if run.state == "running":
            running.append(", ".join([run.name, *filter(None, _facts(run))]))
    left = "" if view.seconds_left is None else f", about {duration(view.seconds_left)} left"
    return f"{view.share:.0%} of the study, {view.count('done', 'reused')} of {len(view.runs)} runs done{left} ({'; '.join(running)})"


def _facts(run: RunView) -> list[str]:
    """share, tokens/s or that it is measured, loss, time left."""
    pace = f"{run.tokens_per_s:,.0f} tokens/s" if run.tokens_per_s else "starting"
    if run.measuring is not None:
        pace = f"measuring {run.measuring:.0%}"
    return [f"{run.tokens / max(1, run.tokens_total):.0%}", pace,
            f"loss {run.loss:.3f}" if run.loss is not None else "",
            f"{duration(run.seconds_left)} left" if run.seconds_left is not None else ""]  # fmt: skip


def _others(view: StudyView) -> str:
    counts = {state: view.count(state) for state in ("waiting", "elsewhere", "failed", "stopped")}
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count)


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"


def _names(jobs: Sequence[Job]) -> str:
    """plain (seeds 1, 2), twice (seed 1); of many arms the first, and how many runs more."""
    seeds: dict[str, list[int]] = {}
    for job in jobs:
        seeds.setdefault(job.arm.name, []).append(job.seed)
    named = list(seeds.items()) if len(seeds) <= MOST_ARMS + 1 else list(seeds.items())[:MOST_ARMS]
    said = [f"{arm} (seed{'s' if len(found) > 1 else ''} {', '.join(map(str, sorted(found)))})" for arm, found in named]
    rest = len(jobs) - sum(len(found) for _, found in named)
    return ", ".join([*said, f"{rest} more"] if rest else said)


def _measured(job: Job) -> str:
    """The validation loss at the end, where it is measured."""
    if ("validation", job.ledger.tokens) not in job.folder.measured():
        return ""
    summary = job.folder.read_loss_summary("validation", job.ledger.tokens)
    return f", {summary['sum_nats'] / summary['targets']:.4f} nats per validation token" if summary["targets"] else ""
