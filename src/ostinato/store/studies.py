"""The folder of one study: every version of it that was ever run, each under its own hash, and which runs it consists of.

    studies/NAME/HASH/study.json    the resolved study and the run (fingerprint) of every arm and seed
    studies/NAME/HASH/given.yaml    the file as a person wrote it
    studies/NAME/registrations/     the study as it was sealed, before its runs and later (`store.registrations`)
    studies/NAME/log.jsonl          what was done and looked at, and when

The hash covers the resolved study and its runs, so a changed study, or the same study over changed text, is another version beside the
first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from ostinato.files import lock, new_folder
from ostinato.store import registrations
from ostinato.store.registrations import Registration, Result
from ostinato.store.tables import now, read_json, torn, write_json
from ostinato.study.fingerprint import fingerprint
from ostinato.study.records import Evaluate, Study

_MEND = "delete that version's folder and give `ostinato run` again: it is written anew, and finished runs are found again"


def study_hash(study: Study) -> str:
    """The identity of a resolved study, whatever data it was run on, however its file is laid out and whatever is said about it."""
    return fingerprint(_identity(study))


_NO_PART: dict[str, Any] = {"path": True, "given": True, "warnings": True, "predictions": True, "quantities": True,
                            "arms": {"__all__": {"run_if"}}}  # fmt: skip
"""What is no part of which study it is: where its file lies, and what is expected of its runs (`store.registrations` keeps that)."""


_WORDS: dict[str, Any] = {"question": True, "about": True, "source": True, "ours": True,
                          "arms": {"__all__": {"note", "contingent", "run_if"}}}  # fmt: skip
"""What is only said: another wording finds the same results."""


def _content(study: Study) -> dict[str, Any]:
    return study.model_dump(mode="json", exclude=_NO_PART)


def _identity(study: Study) -> dict[str, Any]:
    return study.model_dump(mode="json", exclude=_NO_PART | _WORDS)


def evaluation_key(evaluate: Evaluate, context: int) -> str:
    """Names an evaluation by all that its losses depend on: windows, context, stride and the number of targets.

    context: the recipe's, which holds where `evaluate` gives none.
    """
    content = {"windows": evaluate.windows, "context": evaluate.context or context, "stride": evaluate.stride, "targets": evaluate.targets}
    return fingerprint(content)[:8]


@dataclass(frozen=True)
class StudyVersion:
    """One version of a study on disk. runs: {(arm, seed): fingerprint of the run}."""

    path: Path
    written: str
    study: Study
    study_hash: str
    runs: Mapping[tuple[str, int], str]

    @property
    def name(self) -> str:
        return self.path.name

    def evaluation(self, arm: str) -> str:
        """The key under which the losses of an arm's runs are stored for this study."""
        found = next(listed for listed in self.study.arms if listed.name == arm)
        return evaluation_key(self.study.evaluate, found.recipe.context)


class StudyFolder:
    """All versions of the studies of one name. Nothing is created before something is written."""

    def __init__(self, path: Path):
        self.path = Path(path)

    @property
    def name(self) -> str:
        return unquote(self.path.name)

    def __repr__(self) -> str:
        return f"StudyFolder({str(self.path)!r})"

    def write(self, study: Study, runs: Mapping[tuple[str, int], str]) -> StudyVersion:
        """Record that `study` consists of `runs`; a version that is there already is left as it is."""
        listed = [{"arm": arm, "seed": seed, "run": run} for (arm, seed), run in sorted(runs.items())]
        dumped = _content(study)
        wanted = _identity(study)
        same = (version.path for version in self.versions() if _identity(version.study) == wanted and version.runs == dict(runs))
        path = next(same, self.path / fingerprint({"study": dumped, "runs": listed})[:16])
        with lock(self.path / "lock"):
            if not path.exists():
                with new_folder(path) as scratch:
                    write_json(
                        scratch / "study.json",
                        {"format": 1, "written": now(), "study_hash": study_hash(study), "study": dumped, "runs": listed},
                    )
                    if study.given:
                        (scratch / "given.yaml").write_text(study.given, encoding="utf-8")
        version = _read_version(path)
        self.log("run", version=version.name)
        return version

    def versions(self) -> list[StudyVersion]:
        """Every version, the oldest first. Raises StoreError when one is torn."""
        return sorted(
            (_read_version(file.parent) for file in self.path.glob("[!.]*/study.json")),
            key=lambda version: (self._used(version.name), version.name),
        )

    def version(self, study: Study) -> StudyVersion | None:
        """The version of exactly this resolved study that was run last, None when it never was.

        The stored study is read with today's defaults, so a key that is new since, and not given, makes no other study of it.
        """
        wanted = _identity(study)
        return next((version for version in reversed(self.versions()) if _identity(version.study) == wanted), None)

    # --- registrations

    @property
    def registrations_path(self) -> Path:
        return self.path / registrations.FOLDER

    def register(self, study: Study, results: Sequence[Result] = (), git: Mapping[str, str | None] | None = None) -> Registration:
        """Seal `study` as the next registration; the newest is returned, as found, where the study has not changed since.

        results: what exists already. git: `environment.file_state` of the study's file. Raises StoreError when one that is there is torn.
        """
        with lock(self.path / "lock"):
            taken = [event["number"] for event in self.events() if event.get("event") == "registered" and type(event.get("number")) is int]
            made = registrations.write(self.registrations_path, study, results, git or {}, self.held_out_known(), max(taken, default=0))
            if not made.found:
                self.log("registered", number=made.number, fingerprint=made.fingerprint)
        return made

    def registrations(self) -> list[Registration]:
        """Every registration, by number. Raises StoreError when one is torn."""
        return registrations.read_all(self.registrations_path)

    # --- the log

    def log(self, event: str, **info: Any) -> None:
        """Add an event to the study's log: a run begun, the held-out part looked at."""
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"at": now(), "event": event, **info}, ensure_ascii=False) + "\n")

    def events(self) -> Sequence[dict[str, Any]]:
        """The log, the oldest first; a line torn by a crash is skipped."""
        try:
            lines = (self.path / "log.jsonl").read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []
        events = []
        for line in lines:
            try:
                events.append(json.loads(line))
            except ValueError:
                continue
        return events

    def held_out_shown(self) -> str | None:
        """When the held-out part was first shown (ISO time), None when it never was."""
        return self._first("held_out_shown")

    def held_out_known(self) -> str | None:
        """When the held-out part was first shown, by itself or by judging (ISO time, the first in the log); None when it never was.

        Judging before any run was begun shows nothing.
        """
        looks = (event for event in self.events() if event["event"] in ("held_out_shown", "judged") and event.get("begun") != 0)
        return next((event["at"] for event in looks), None)

    def judged(self, study: Study | None = None) -> str | None:
        """When the study was first judged (ISO time), which shows the held-out part too; None when it never was.

        study: in its size alone, as each size has its own runs.
        """
        events = (event for event in self.events() if event["event"] == "judged")
        return next((event["at"] for event in events if study is None or event.get("size") == study.size), None)

    def _first(self, name: str) -> str | None:
        return next((event["at"] for event in self.events() if event["event"] == name), None)

    def _used(self, version: str) -> int:
        """The place in the log of the last run of a version."""
        return max((place for place, event in enumerate(self.events()) if event.get("version") == version), default=-1)


def folder_name(study: str) -> str:
    """A study's name as the name of one folder, whatever characters it has."""
    name = quote(study, safe=" ()+,=@")
    return name.replace(".", "%2E", 1) if name.startswith(".") else name


def _read_version(path: Path) -> StudyVersion:
    file = path / "study.json"
    content = read_json(file, _MEND, ("written", "study", "study_hash", "runs"))
    try:
        runs = {(row["arm"], row["seed"]): row["run"] for row in content["runs"]}
        study = Study.model_validate(content["study"])
    except (ValueError, KeyError, TypeError) as error:
        raise torn(file, str(error).splitlines()[0], _MEND) from None
    return StudyVersion(path, content["written"], study, content["study_hash"], runs)
