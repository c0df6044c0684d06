"""What a run logs while it trains, as files of its folder: steps, gradients, the most memory that a step held; and its pace."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.store import gradients as gradient_files
from ostinato.store import steps as step_files
from ostinato.store.tables import read_json, write_json

if TYPE_CHECKING:
    import pyarrow as pa


class TrainingLog:
    """Of a run's folder `path` (`store.runs.RunFolder`)."""

    path: Path

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
