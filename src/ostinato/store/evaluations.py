"""The losses of a run, as files of its folder: a loss per target at each evaluation point, kept apart by how windows were cut."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.errors import StoreError
from ostinato.store import losses as loss_files
from ostinato.store.losses import LossTable
from ostinato.store.tables import read_json, write_json
from ostinato.study.points import PARTS

if TYPE_CHECKING:
    import numpy as np

    from ostinato.data import Targets


class Evaluations:
    """Of a run's folder `path` (`store.runs.RunFolder`); targets are the store's, in the folder `targets_path`."""

    path: Path
    targets_path: Path
    _evaluation: str | None

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
                f"run {self.path.name} has no {part} losses at {tokens} tokens", f"measured points: {points}", "give `ostinato run` again"
            ) from None

    def read_loss_summary(self, part: str, tokens: int) -> dict[str, Any]:
        """sum_nats (float64), targets (count), bytes and target_id of one measured point, without reading its losses."""
        return loss_files.read_loss_footer(self.losses_path(part, tokens))

    def measured(self) -> list[tuple[str, int]]:
        """(part, tokens) of every stored evaluation point, in order."""
        return sorted(
            (file.parent.name, int(file.stem)) for file in self.path.glob(f"losses/{self.evaluation}/*/*.parquet") if file.stem.isdigit()
        )
