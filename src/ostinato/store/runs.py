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
import fcntl
import math
import os
import statistics
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.errors import StoreError
from ostinato.files import lock
from ostinato.store import gradients as gradient_files
from ostinato.store import losses as loss_files
from ostinato.store import measures as measure_files
from ostinato.store import steps as step_files
from ostinato.store.losses import LossTable
from ostinato.store.measures import Measure
from ostinato.store.sessions import SESSION, possible
from ostinato.store.tables import now, read_json, torn, write_json
from ostinato.study.points import PARTS

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from ostinato.data import Targets

STATES = ("new", "running", "stopped", "failed", "done")

_held: dict[tuple[int, str], tuple[int, int]] = {}  # (process, lock file) -> (thread that holds it, depth)


class RunFolder:
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

    def exists(self) -> bool:
        """Whether the run has a record."""
        return (self.path / "record.json").exists()

    # --- the lock

    @contextlib.contextmanager
    def lock(self, wait: float | None = 2.0, holder: str = "") -> Iterator[None]:
        """Hold the run; the thread that holds it may ask again. Raises StoreError when another process has it for `wait` seconds."""
        file, me = self.path / "lock", threading.get_ident()
        key = (os.getpid(), str(file.absolute()))
        owner, depth = _held.get(key, (me, 0))
        if depth and owner == me:
            _held[key] = (me, depth + 1)
            try:
                yield
            finally:
                _held[key] = (me, depth)
            return
        with lock(file, wait, holder):
            _held[key] = (me, 1)
            try:
                yield
            finally:
                del _held[key]

    def in_use(self) -> bool:
        """Whether a process holds the lock now."""
        try:
            with open(self.path / "lock") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

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

    # --- training

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

    @property
    def steps_path(self) -> Path:
        return self.path / "steps.jsonl"

    @property
    def finished_steps_path(self) -> Path:
        return self.path / "steps.parquet"

    def append_step(self, record: dict[str, Any]) -> None:
        """Add one training step {step, tokens, loss, lr, grad_norm, seconds} to the log."""
        step_files.append_step(self.steps_path, record)

    def keep_steps(self, last: int) -> None:
        """Drop the steps after `last`, also those of a finished log: a resumed run trains them again."""
        if self.finished_steps_path.exists():
            records = step_files.read_finished(self.finished_steps_path).to_pylist()
            step_files.write_log(self.steps_path, (record for record in records if record["step"] <= last))
            self.finished_steps_path.unlink()
        else:
            step_files.keep_steps(self.steps_path, last)
        step_files.keep_steps(self.gradients_path, last)
        gradient_files.keep(self.finished_gradients_path, last)

    def finish_steps(self) -> None:
        """Turn the logs into steps.parquet and gradients.parquet; doing it twice changes nothing."""
        gradient_files.finish(self.gradients_path, self.finished_gradients_path)
        if self.steps_path.exists():
            step_files.write_steps(self.finished_steps_path, step_files.read_steps(self.steps_path))
            self.steps_path.unlink()

    def steps(self) -> pa.Table:
        """All logged steps, running or finished; no rows before the first."""
        if not self.steps_path.exists() and self.finished_steps_path.exists():
            return step_files.read_finished(self.finished_steps_path)
        return step_files.steps_table(step_files.read_steps(self.steps_path))

    @property
    def gradients_path(self) -> Path:
        return self.path / "gradients.jsonl"

    @property
    def finished_gradients_path(self) -> Path:
        return self.path / "gradients.parquet"

    def append_gradients(self, record: dict[str, Any]) -> None:
        """Add what one step's gradient was (`store.gradients`) to the log."""
        step_files.append_step(self.gradients_path, record)

    def gradients(self) -> pa.Table:
        """One row a number, as `store.gradients.COLUMNS` has them, running or finished; no rows of a run that none was looked at.

        Raises StoreError when a file is torn.
        """
        return gradient_files.read_gradients(self.gradients_path, self.finished_gradients_path)

    def training_seconds(self) -> float | None:
        """Seconds of all logged steps together, over every session; None before the first."""
        seconds = [value for value in self.steps()["seconds"].to_pylist() if value is not None]
        return math.fsum(seconds) if seconds else None

    def tokens_per_s(self) -> float | None:
        """Tokens trained on in a second: the median over all logged steps, which a pause does not move; None before the first."""
        table = self.steps().select(["step", "tokens", "seconds"]).to_pylist()
        speeds = [row["tokens"] / row["step"] / row["seconds"] for row in table if row["seconds"]]
        return statistics.median(speeds) if speeds else None

    def write_peak(self, peak_bytes: int, device: str) -> None:
        """Say how much memory a training step has held on this kind of device (cpu, cuda), in bytes; the most of all sessions stays."""
        if peak_bytes > (self.peak_bytes() or 0):
            write_json(self.path / "cost.json", {"peak_bytes": peak_bytes, "device": device})

    def peak_bytes(self) -> int | None:
        """The most memory that a training step has held, in bytes; None when it is not known. Raises StoreError when the file is torn."""
        path = self.path / "cost.json"
        try:
            return read_json(path, f"delete {path}: a run that goes on measures it again", ("peak_bytes",))["peak_bytes"]
        except FileNotFoundError:
            return None

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

    # --- losses

    def evaluations(self) -> list[str]:
        """The evaluations that losses are stored under, the one written to last at the end."""
        folders = [folder for folder in self.path.glob("losses/*") if folder.is_dir()]
        newest = {folder.name: max((file.stat().st_mtime_ns for file in folder.glob("*/*.parquet")), default=0) for folder in folders}
        return sorted(newest, key=lambda name: (newest[name], name))

    @property
    def evaluation(self) -> str:
        """The key that losses are read and written under."""
        if self._evaluation is not None:
            return self._evaluation
        return next(reversed(self.evaluations()), "default")

    def under(self, evaluation: str) -> RunFolder:
        """The same run with the losses of another evaluation."""
        return RunFolder(self.path, self.targets_path, evaluation)

    def write_evaluation(self, evaluate: dict[str, Any]) -> None:
        """Say how the losses of this evaluation are measured (the study's `evaluate`); the first record stays."""
        path = self.path / "losses" / self.evaluation / "evaluate.json"
        if not path.exists():
            write_json(path, evaluate)

    def evaluation_record(self) -> dict[str, Any]:
        """What `write_evaluation` wrote, {} when nothing was. Raises StoreError when it is torn."""
        path = self.path / "losses" / self.evaluation / "evaluate.json"
        try:
            return read_json(path, f"delete {path} and give `ostinato run` again")
        except FileNotFoundError:
            return {}

    def losses_path(self, part: str, tokens: int) -> Path:
        """The file of one evaluation point, whether it is there or not."""
        return self.path / "losses" / self.evaluation / part / f"{int(tokens)}.parquet"

    def write_losses(self, part: str, tokens: int, losses: np.ndarray, targets: Targets) -> None:
        """Store the loss of every target (float32 [N], nats) after training on `tokens`.

        Raises StoreError when shapes differ or a loss is not finite.
        """
        if part not in PARTS:
            raise StoreError(f"part {part!r}", f"a part is one of {', '.join(PARTS)}", "use one of these")
        loss_files.write_targets(self.targets_path / f"{targets.id}.parquet", targets)
        loss_files.write_losses(self.losses_path(part, tokens), part, tokens, losses, targets)

    def read_losses(self, part: str, tokens: int) -> LossTable:
        """Raises StoreError when the point is not measured, or its file is torn."""
        try:
            return loss_files.read_losses(self.losses_path(part, tokens))
        except FileNotFoundError:
            points = ", ".join(str(at) for name, at in self.measured() if name == part) or "none"
            raise StoreError(
                f"run {self.name} has no {part} losses at {tokens} tokens", f"measured points: {points}", "give `ostinato run` again"
            ) from None

    def read_loss_summary(self, part: str, tokens: int) -> dict[str, Any]:
        """sum_nats (float64), targets (count), bytes and target_id of one measured point, without reading its losses."""
        return loss_files.read_loss_footer(self.losses_path(part, tokens))

    def measured(self) -> list[tuple[str, int]]:
        """(part, tokens) of every stored evaluation point, in order."""
        return sorted(
            (file.parent.name, int(file.stem)) for file in self.path.glob(f"losses/{self.evaluation}/*/*.parquet") if file.stem.isdigit()
        )

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
