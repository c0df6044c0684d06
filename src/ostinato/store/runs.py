"""The folder of one run: what was given and resolved, its state, progress, steps, losses and checkpoints, under one lock.

    record.json      what was given, what was resolved, and the machine of every session that worked on the run
    status.json      new, running, stopped, failed or done, and since when
    progress.json    where a running run is (rewritten often)
    steps.jsonl      one line a training step; steps.parquet once the run is done
    gradients.jsonl  one line a step whose gradient was looked at; gradients.parquet once the run is done
    cost.json        the most memory that a training step has held, over every session
    session.json     how the first session computed: device, threads, compiled, rows_at_once; later ones keep to it
    losses/EVALUATION/PART/TOKENS.parquet    a loss per target at each evaluation point
    measures/NAME/KEY/TOKENS.parquet         whatever else was measured of a checkpoint (`store.measures`)
    checkpoints/     written by the training room

Two studies that share a run may cut their evaluation windows differently: EVALUATION (`store.evaluation_key`) keeps their losses apart.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.errors import StoreError
from ostinato.store import measures as measure_files
from ostinato.store.evaluations import Evaluations
from ostinato.store.held import held, in_use
from ostinato.store.measures import Measure
from ostinato.store.sessions import SESSION, possible
from ostinato.store.tables import now, read_json, torn, write_json
from ostinato.store.training_log import TrainingLog

if TYPE_CHECKING:
    import pyarrow as pa

STATES = ("new", "running", "stopped", "failed", "done")


class RunFolder(TrainingLog, Evaluations):
    """One run on disk. Nothing is created before something is written. Losses live with the run, targets with the store.

    evaluation: which evaluation its losses are read and written under; None takes the newest that is there, and "default" when none is.
    """

    def __init__(self, path: Path, targets_path: Path | None = None, evaluation: str | None = None):
        self.path = Path(path)
        self._evaluation = evaluation
        self.targets_path = targets_path or self.path.parent.parent / "targets"

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @property
    def name(self) -> str:
        return self.path.name

    def under(self, evaluation: str) -> RunFolder:
        """The same run with the losses of another evaluation."""
        return RunFolder(self.path, self.targets_path, evaluation)

    def exists(self) -> bool:
        """Whether the run has a record."""
        return (self.path / "record.json").exists()

    # --- the lock

    def lock(self, wait: float | None = 2.0, holder: str = "") -> contextlib.AbstractContextManager[None]:
        """Hold the run; the thread that holds it may ask again. Raises InUse when another process has it for `wait` seconds."""
        return held(self.path / "lock", wait, holder)

    def in_use(self) -> bool:
        """Whether a process holds the lock now."""
        return in_use(self.path / "lock")

    # --- what it is

    def write_record(self, given: dict[str, Any], resolved: dict[str, Any], environment: dict[str, Any]) -> None:
        """Say what the run is. The first record stays; later sessions add their machine to `sessions`.

        given: as a person wrote it. resolved: with every default filled in. environment: `store.environment()`.
        """
        try:
            record = self.record()
        except StoreError:
            if (self.path / "record.json").exists():
                raise
            record = {
                "format": 1,
                "run": self.name,
                "written": now(),
                "given": given,
                "resolved": resolved,
                "environment": environment,
                "sessions": [],
            }
        record["sessions"].append({"at": now(), "environment": environment})
        write_json(self.path / "record.json", record)

    def record(self) -> dict[str, Any]:
        """The keys given, resolved, environment, sessions, written. Raises StoreError when there is none or it is torn."""
        path = self.path / "record.json"
        try:
            return read_json(path, f"delete {path} and give `ostinato run` again: it is written anew", ("given", "resolved", "sessions"))
        except FileNotFoundError:
            raise StoreError(
                f"no run in {self.path}", "a run has a record.json", '`ostinato query "select * from runs"` lists the runs'
            ) from None

    def given(self) -> dict[str, Any]:
        """As a person wrote it: study, size, arm, seed. Raises as `record`."""
        return self.record().get("given") or {}

    def resolved(self) -> dict[str, Any]:
        """With every default filled in, and what follows from it. Raises as `record`."""
        return self.record().get("resolved") or {}

    def set_status(self, state: str, **info: Any) -> None:
        """Record the state and what else is known (an error text, tokens). Raises StoreError for a state that is none."""
        if state not in STATES:
            raise StoreError(f"state {state!r}", f"a run is one of {', '.join(STATES)}", "use one of these")
        write_json(self.path / "status.json", {"state": state, "at": now(), "process": os.getpid(), **info})

    def status(self) -> dict[str, Any]:
        """{"state": ...} and more. A run that says running and that no process holds was killed: it counts as stopped, `killed` is true."""
        path = self.path / "status.json"
        try:
            status = read_json(path, f"delete {path} and give `ostinato run` again", ("state",))
        except FileNotFoundError:
            return {"state": "new"}
        if status["state"] == "running" and not self.in_use():
            return {**status, "state": "stopped", "killed": True}
        return status

    def write_progress(self, progress: dict[str, Any]) -> None:
        """Say where a running run is; a crash of the machine may lose the newest word."""
        write_json(self.path / "progress.json", {"at": now(), **progress}, flush=False)

    def progress(self) -> dict[str, Any]:
        """What was last written, {} when nothing was."""
        path = self.path / "progress.json"
        try:
            return read_json(path, f"delete {path}: it is written anew while the run goes on")
        except FileNotFoundError:
            return {}

    # --- its files

    @property
    def checkpoints_path(self) -> Path:
        return self.path / "checkpoints"

    def checkpoints(self) -> dict[int, Path]:
        """The folder of every checkpoint that has a manifest, by the tokens trained on."""
        found = (file.parent for file in self.checkpoints_path.glob("*/manifest.json"))
        return {int(path.name): path for path in sorted(found) if path.name.isdigit()}

    @property
    def tensorboard_path(self) -> Path:
        return self.path / "tensorboard"

    @property
    def notices_path(self) -> Path:
        """What a person should know of the run's trackers, one line each."""
        return self.path / "notices.txt"

    @property
    def log_path(self) -> Path:
        """What the worker process printed."""
        return self.path / "log.txt"

    # --- how it is computed

    def session(self) -> dict[str, Any]:
        """How the first session computed, in the words of SESSION; later ones keep to it, because only then the bits are the same.

        Of a run from before this was written, or that has lost it, what its newest readable checkpoint says; {} without one.
        Raises StoreError when it is torn, or says what cannot be.
        """
        path = self.path / "session.json"
        mend = f"delete {path}: the run then goes on as its newest checkpoint, this machine and the options have it"
        try:
            content = read_json(path, mend)
        except FileNotFoundError:
            return self._session_of_checkpoints()
        if wrong := [name for name, value in content.items() if name in SESSION and not possible(name, value)]:
            raise torn(path, f"{wrong[0]} is {content[wrong[0]]!r}", mend)
        return content

    def _session_of_checkpoints(self) -> dict[str, Any]:
        for _, path in sorted(self.checkpoints().items(), reverse=True):
            with contextlib.suppress(StoreError):  # torn: training goes on from the one before, too
                about = read_json(path / "manifest.json", "")
                return {name: about[name] for name in SESSION if name in about and possible(name, about[name])}
        return {}

    def begun(self) -> dict[str, Any]:
        """`session` of a run that has taken a step; {} of one that has not, which may still compute in any way. Raises as `session`."""
        logged = self.steps_path.exists() and self.steps_path.stat().st_size
        return self.session() if logged or self.finished_steps_path.exists() or self.checkpoints() else {}

    def write_session(self, **settings: Any) -> None:
        """Remember some of SESSION for every later session, beside what is remembered already. Raises StoreError for another name."""
        if unknown := sorted(set(settings) - set(SESSION)):
            raise StoreError(f"session setting {unknown[0]!r}", f"a run remembers {', '.join(SESSION)}", "use one of these")
        write_json(self.path / "session.json", self.session() | settings)

    # --- other measures

    def write_measure(self, name: str, settings: dict[str, Any], tokens: int, table: pa.Table, about: dict[str, Any] | None = None) -> None:
        """Store a measurement of the checkpoint at `tokens`. Raises StoreError for a table without rows."""
        measure_files.write_measure(self.path, name, settings, tokens, table, about)

    def measures(self, name: str | None = None) -> list[Measure]:
        """The stored ones, in order of name and tokens; a torn file is as one that is not there."""
        return measure_files.measures(self.path, name)

    def torn_measures(self) -> list[str]:
        """What is wrong with every file of a measure that cannot be read."""
        return measure_files.torn_measures(self.path)

    def measure(self, name: str, tokens: int | None = None, settings: dict[str, Any] | None = None) -> Measure | None:
        """The newest stored one of that name, where given of those tokens and settings; None without one."""
        found = [one for one in self.measures(name) if tokens in (None, one.tokens) and settings in (None, one.settings)]
        return found[-1] if found else None
