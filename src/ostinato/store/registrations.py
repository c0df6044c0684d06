"""Registrations: a study sealed with its predictions before its runs, each chained to the one before.

    studies/NAME/registrations/0001/study.json    the resolved study, predictions in canonical form, one key a line
    studies/NAME/registrations/0001/given.yaml    the file as a person wrote it
    studies/NAME/registrations/0001/seal.json     when, by what, after which results, what changed, and digests of all of it

The fingerprint is the sha256 of the seal without its fingerprint and of study.json's text, so one line of hex, kept in a commit, a paper
or somebody's mail, fixes everything in the folder; `previous` in the seal is the fingerprint of the one before, so it fixes these too.
The digests of every line and of every key of the seal add no proof: they tell where an edit was made (`store.seals`).
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ostinato.claims import parse_condition, parse_expression
from ostinato.errors import OstinatoError
from ostinato.files import as_json, new_folder
from ostinato.store.environment import versions
from ostinato.store.tables import now, read_json, torn, write_json
from ostinato.study.fingerprint import canonical
from ostinato.study.records import OTHERWISE, Study

FOLDER = "registrations"
STUDY, GIVEN, SEAL = "study.json", "given.yaml", "seal.json"
KEYS = ("number", "at", "previous", "versions", "git", "results", "held_out_shown", "changes", "files", "lines", "digests", "fingerprint")
_MEND = "bring the folder back from a copy (a commit, the store of somebody else); `ostinato register --check` says what is wrong with it"


@dataclass(frozen=True)
class Result:
    """What was there already of one run and part when a study was sealed.

    part: validation, held_out, or train where only the losses of steps are there.  points: tokens of every measurement, the newest last.
    file: of the newest, from the root of the store; sha256: of that file.
    """

    arm: str
    seed: int
    run: str
    part: str
    points: tuple[int, ...]
    file: str
    sha256: str

    @property
    def tokens(self) -> int:
        """Of the newest."""
        return self.points[-1]


@dataclass(frozen=True)
class Change:
    """What differs from the registration before. place: the keys that lead there, arms and predictions by name. None: not there."""

    place: tuple[str, ...]
    before: str | None
    after: str | None

    @property
    def prediction(self) -> str | None:
        """The name of the prediction that changed; None where something else did."""
        return self.place[1] if self.place[0] == "predictions" and len(self.place) > 1 else None

    def __str__(self) -> str:
        where = ".".join(self.place)
        if self.before is None or self.after is None:
            return f"{where}: {'new' if self.before is None else 'gone'}"
        return f"{where}: {self.before or 'nothing'} \N{RIGHTWARDS ARROW} {self.after or 'nothing'}"


@dataclass(frozen=True)
class Registration:
    """One sealed study. at: UTC, ISO 8601. previous: fingerprint of the one before. results: what existed already.

    git: commit, branch and whether the study file is as committed, or why no commit is known. held_out_shown: when that part was first
    looked at, None when it was not. found: it was there when the same study was registered again.
    since: the number of the one that `changes` compare with, the newest of its size before it; None for the first.
    """

    number: int
    at: str
    fingerprint: str
    previous: str | None
    study: Study
    versions: Mapping[str, str | None]
    git: Mapping[str, str | None]
    results: tuple[Result, ...]
    held_out_shown: str | None
    changes: tuple[Change, ...]
    path: Path
    found: bool = False
    since: int | None = None

    @property
    def commit(self) -> str | None:
        """Of the user's repository, None where there was none."""
        return self.git.get("commit")

    def record(self) -> dict[str, Any]:
        """Plain values for JSON; the study itself lies in the folder."""
        return {"number": self.number, "at": self.at, "fingerprint": self.fingerprint, "previous": self.previous, "path": str(self.path),
                "found": self.found, "predictions": [one.name for one in self.study.predictions], "versions": dict(self.versions),
                "git": dict(self.git), "results": [asdict(one) for one in self.results], "held_out_shown": self.held_out_shown,
                "since": self.since, "changes": [asdict(one) for one in self.changes]}  # fmt: skip


# --- what is sealed


def content(study: Study) -> dict[str, Any]:
    """All that a registration seals: the resolved study, conditions as the language prints them; not where its file lies."""
    dumped = study.model_dump(mode="json", exclude={"path", "given", "warnings"})
    for prediction in dumped["predictions"]:
        for key in ("supported", "killed", "between"):
            prediction[key] = {name: _canonical(text, parse_condition) for name, text in prediction[key].items()}
        prediction["guess"] = {_canonical(text, parse_expression): guessed for text, guessed in prediction["guess"].items()}
    for arm in dumped["arms"]:
        arm["run_if"] = arm["run_if"] and _canonical(arm["run_if"], parse_condition)
    dumped["quantities"] = {name: _canonical(text, parse_expression) for name, text in dumped["quantities"].items()}
    return dumped


def of_size(registrations: Sequence[Registration], study: Study) -> list[Registration]:
    """Those of the study in its own size: all sizes of a study are sealed in one chain, and each makes its own predictions."""
    return [one for one in registrations if one.study.size == study.size]


def _canonical(text: str, parse: Callable[[str], Any]) -> str:
    """As the language prints it; `otherwise`, and what another version has sealed and this one cannot read, as it is."""
    try:
        return OTHERWISE if text.strip().lower() == OTHERWISE else str(parse(text))
    except OstinatoError:
        return text


def differences(before: Any, after: Any, place: tuple[str, ...] = ()) -> Iterator[Change]:
    """What differs between two contents; a branch that is new or gone is one change, and the order of outcomes counts."""
    before, after = _by_name(before), _by_name(after)
    if not (isinstance(before, dict) and isinstance(after, dict)):
        if before != after:
            yield Change(place, _text(before), _text(after))
        return
    for name in dict.fromkeys((*before, *after)):
        here = (*place, str(name))
        if name in before and name in after:
            yield from differences(before[name], after[name], here)
        else:
            yield Change(here, _text(before[name]) if name in before else None, _text(after[name]) if name in after else None)
    if place[:1] == ("predictions",) and len(place) == 3 and before.keys() == after.keys() and list(before) != list(after):
        yield Change((*place, "order"), ", ".join(before), ", ".join(after))


def _by_name(value: Any) -> Any:
    named = isinstance(value, list) and value and all(isinstance(item, dict) and "name" in item for item in value)
    return {item["name"]: item for item in value} if named else {} if value == [] else value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# --- digests


def line_digests(text: str) -> str:
    """Eight hex digits for every line, with spaces between."""
    return " ".join(digest(line) for line in text.split("\n"))


def digest(text: str) -> str:
    """Eight hex digits: to find an edited place with, not to prove anything."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def sha256_of(text: str) -> str:
    """In hex, of UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def seal_fingerprint(seal: Mapping[str, Any], study_text: str) -> str:
    """The sha256 of a seal without its fingerprint, in canonical JSON, a line feed, and the text of study.json."""
    return sha256_of(canonical({key: value for key, value in seal.items() if key != "fingerprint"}) + "\n" + study_text)


# --- on disk


def numbered(folder: Path) -> dict[int, Path]:
    """The registrations in a folder by number, whole or not; {} when there is none."""
    found = [path for path in folder.glob("[0-9]*") if path.is_dir() and path.name.isdecimal()]
    return dict(sorted((int(path.name), path) for path in found))


def write(folder: Path, study: Study, results: Iterable[Result], git: Mapping[str, str | None], held_out_shown: str | None,
          taken: int = 0) -> Registration:  # fmt: skip
    """Seal `study` as the next registration in `folder`; the caller holds the lock of the study.

    The newest one of the same size is returned as it is where the study has not changed. taken: numbers up to this one were given before.
    Raises StoreError when one that is there is torn: a chain goes on only from what can be read.
    """
    before = read_all(folder)
    last, sealed = (before[-1] if before else None), content(study)
    same = next(reversed(of_size(before, study)), None)
    changes = list(differences(content(same.study), sealed)) if same else []
    if same and not changes:
        return replace(same, found=True)
    number = max(last.number if last else 0, taken) + 1
    texts = {STUDY: as_json(sealed) + "\n", **({GIVEN: _lines(study.given)} if study.given else {})}
    seal = {
        "format": 1, "number": number, "at": now(), "study": study.name, "previous": last and last.fingerprint, "versions": versions(),
        "git": dict(git), "results": [asdict(one) for one in results], "held_out_shown": held_out_shown,
        "changes": [asdict(one) for one in changes],
        "since": same and same.number, "files": {name: sha256_of(text) for name, text in texts.items()},
        "lines": {name: line_digests(text) for name, text in texts.items()},
    }  # fmt: skip
    seal = json.loads(as_json(seal))
    seal["digests"] = {key: digest(canonical(value)) for key, value in seal.items()}
    seal["fingerprint"] = seal_fingerprint(seal, texts[STUDY])
    path = folder / f"{number:04d}"
    with new_folder(path) as scratch:
        for name, text in texts.items():
            (scratch / name).write_text(text, encoding="utf-8", newline="\n")
        write_json(scratch / SEAL, seal)
    return read(path)


def _lines(text: str) -> str:
    """With line feeds alone, as every reader sees it."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_all(folder: Path) -> list[Registration]:
    """Every registration in a folder, by number. Raises StoreError when one is torn."""
    return [read(path) for path in numbered(folder).values()]


def read(path: Path) -> Registration:
    """One registration, as its files say now (`store.seals.faults` tells whether they are as sealed). Raises StoreError when torn."""
    file = path / SEAL
    try:
        seal, sealed = read_json(file, _MEND, KEYS), read_json(path / STUDY, _MEND)
    except FileNotFoundError as error:
        raise torn(Path(error.filename), "it is not there", _MEND) from None
    try:
        results = tuple(Result(**{**row, "points": tuple(row["points"])}) for row in seal["results"])
        changes = tuple(Change(**{**row, "place": tuple(row["place"])}) for row in seal["changes"])
        return Registration(int(seal["number"]), str(seal["at"]), seal["fingerprint"], seal["previous"], _study(path, sealed),
                            dict(seal["versions"]), dict(seal["git"]), results, seal["held_out_shown"], changes, path,
                            since=seal.get("since", int(seal["number"]) - 1 or None))  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise torn(file, str(error).splitlines()[0], _MEND) from None


def _study(path: Path, sealed: Mapping[str, Any]) -> Study:
    given = path / GIVEN
    text = given.read_text(encoding="utf-8", errors="replace") if given.is_file() else ""
    try:
        return Study.model_validate({**sealed, "given": text})
    except ValueError as error:
        raise torn(path / STUDY, "; ".join(str(error).splitlines()[:2]), _MEND) from None


def backwards(registrations: Sequence[tuple[int, str]]) -> list[str]:
    """A note for every (number, time) that lies before the one of the number before."""
    return [
        f"a clock went backwards: registration {number} says {at}, {earlier} before it says {time}; their order is by number"
        for (earlier, time), (number, at) in itertools.pairwise(registrations)
        if at < time
    ]
