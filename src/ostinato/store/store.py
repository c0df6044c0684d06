"""The store: a folder of runs found by fingerprint, so that a run that two studies share is trained once.

ROOT/store.json                 the format of the store
ROOT/runs/FINGERPRINT/          one run (the first 16 digits of its fingerprint)
ROOT/targets/ID.parquet         the identity of evaluation targets, once per id
ROOT/floors/ID-DATA.json        what simple models of the training stream lose on the same targets
ROOT/classes/ID-DATA.parquet    the classes of these targets: matches in their document, counts in the training stream, places
ROOT/models/DIGEST/             another's model (the first 16 digits of the sha256 of its files): its losses and measures, as of a run
ROOT/studies/NAME/              the versions of a study (`ostinato.store.studies`)
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.errors import StoreError
from ostinato.store.classes import read_classes, write_classes
from ostinato.store.losses import TargetTable, read_targets, write_targets
from ostinato.store.runs import RunFolder
from ostinato.store.studies import StudyFolder, folder_name
from ostinato.store.tables import read_json, write_json

if TYPE_CHECKING:
    from ostinato.data import Targets
    from ostinato.data.classes import TokenClasses
    from ostinato.store.query import Answer
    from ostinato.study.records import Study

FORMAT = 1
_DIGITS = 16


class Store:
    """Runs and results under one folder. Opening creates nothing; a store of a newer format is refused with StoreError."""

    def __init__(self, root: Path | str):
        self.root = Path(root)
        if self.root.exists() and not self.root.is_dir():
            raise StoreError(f"{self.root} is a file", "a store is a folder", "name another folder with --store")
        file = self.root / "store.json"
        if file.exists():
            made = read_json(file, f'write {{"format": {FORMAT}}} into it').get("format")
            if made != FORMAT:
                raise StoreError(
                    f"{self.root} has store format {made}",
                    f"this version reads format {FORMAT}",
                    "use the version that made it, or another folder",
                )

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r})"

    def create(self) -> Store:
        """Make the folder and mark it as a store; harmless when it is one."""
        if not (self.root / "store.json").exists():
            write_json(self.root / "store.json", {"format": FORMAT})
        return self

    # --- runs

    @property
    def targets_path(self) -> Path:
        return self.root / "targets"

    def run(self, fingerprint: str, evaluation: str | None = None) -> RunFolder:
        """The folder of the run with this fingerprint (hex digits), whether it exists yet or not; its losses under `evaluation_key`."""
        if len(fingerprint) < _DIGITS or not set(fingerprint) <= set("0123456789abcdef"):
            raise StoreError(f"fingerprint {fingerprint!r}", f"at least {_DIGITS} hex digits", "`ostinato list --runs` shows the runs")
        return RunFolder(self.root / "runs" / fingerprint[:_DIGITS], self.targets_path, evaluation)

    def runs(self) -> list[RunFolder]:
        """Every run that has a record, by name."""
        return [RunFolder(file.parent, self.targets_path) for file in sorted(self.root.glob("runs/*/record.json"))]

    def model(self, digest: str, evaluation: str | None = None) -> RunFolder:
        """The folder of a model that was not trained here, by the sha256 of its files, whether it exists yet or not.

        It is kept as a run that has trained on 0 tokens.
        """
        return RunFolder(self.root / "models" / digest[:_DIGITS], self.targets_path, evaluation)

    def models(self) -> list[RunFolder]:
        """Every model that was measured and not trained here, by digest."""
        return [RunFolder(file.parent, self.targets_path) for file in sorted(self.root.glob("models/*/record.json"))]

    # --- studies

    def study_folder(self, name: str) -> StudyFolder:
        """The folder of the studies of this name, whether it exists yet or not."""
        return StudyFolder(self.root / "studies" / folder_name(name))

    def studies(self) -> list[StudyFolder]:
        """Every study that was ever run here, by name."""
        return sorted((StudyFolder(path) for path in self.root.glob("studies/*") if path.is_dir()), key=lambda folder: folder.name)

    def runs_of(self, study: Study) -> dict[tuple[str, int], RunFolder]:
        """The run of every arm and seed of exactly this study, {} when it was never run here."""
        version = self.study_folder(study.name).version(study)
        runs = version.runs if version else {}
        return {(arm, seed): self.run(fingerprint, version.evaluation(arm)) for (arm, seed), fingerprint in runs.items()}

    # --- targets, their floors and classes

    def targets(self, target_id: str) -> TargetTable:
        """document, position, token, bytes and digest of each target. Raises StoreError when they are missing or torn."""
        return read_targets(self.targets_path / f"{target_id}.parquet")

    def write_targets(self, targets: Targets) -> None:
        """Write the identity of targets, or complete what an older version wrote; harmless when it is all there."""
        write_targets(self.targets_path / f"{targets.id}.parquet", targets)

    def write_floors(self, target_id: str, data_fingerprint: str, floors: dict[str, float]) -> None:
        """Nats per token of simple models of the training stream (`unigram`, `bigram`) on the same targets."""
        write_json(self._floors_path(target_id, data_fingerprint), {name: float(nats) for name, nats in floors.items()})

    def floors(self, target_id: str, data_fingerprint: str) -> dict[str, float] | None:
        """What `write_floors` stored, None when nothing was."""
        path = self._floors_path(target_id, data_fingerprint)
        try:
            return read_json(path, f"delete {path} and give `ostinato run` again: it is written anew")
        except FileNotFoundError:
            return None

    def _floors_path(self, target_id: str, data_fingerprint: str) -> Path:
        return self.root / "floors" / f"{target_id[:_DIGITS]}-{data_fingerprint[:_DIGITS]}.json"

    def write_classes(self, target_id: str, data_fingerprint: str, classes: TokenClasses) -> None:
        """Store the classes of targets, counted in the training text of this fingerprint."""
        write_classes(self._classes_path(target_id, data_fingerprint), classes, target_id, data_fingerprint)

    def has_classes(self, target_id: str, data_fingerprint: str) -> bool:
        """Whether `write_classes` stored any."""
        return self._classes_path(target_id, data_fingerprint).exists()

    def classes(self, target_id: str, data_fingerprint: str) -> TokenClasses | None:
        """What `write_classes` stored, None when nothing was. Raises StoreError for a torn file."""
        try:
            return read_classes(self._classes_path(target_id, data_fingerprint))
        except FileNotFoundError:
            return None

    def _classes_path(self, target_id: str, data_fingerprint: str) -> Path:
        return self.root / "classes" / f"{target_id[:_DIGITS]}-{data_fingerprint[:_DIGITS]}.parquet"

    # --- questions

    def query(self, sql: str, held_out: bool = False) -> Answer:
        """Answer one SELECT (DuckDB) over the views (`store.VIEWS`).

        Unless `held_out` is true, losses and results of the held-out part are not in the views; when it is, every study's log says so.
        Raises StoreError for a query that cannot be answered, with the views and their columns.
        """
        from ostinato.store.query import answer  # duckdb

        if held_out:
            for folder in self.studies():
                folder.log("held_out_shown", by="query")
        return answer(self, sql, held_out)

    def summary(self) -> dict[str, Any]:
        """How many runs are in which state, for a line of text."""
        states = [folder.status()["state"] for folder in self.runs()]
        return {"runs": len(states), **{state: states.count(state) for state in sorted(set(states))}}
