"""Whether registrations are as they were sealed: `ostinato register --check`, of one's own or of somebody else's copy.

What is found out: another fingerprint than the content gives, with the line or the key that was edited; a link of the chain that is missing
or another one; a file that is gone or torn; a registration that the study's log has and the folder has not. Who edits everything and the
last fingerprint too is found out by the fingerprint that was kept elsewhere, and by nothing else: so it is printed.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ostinato.errors import StoreError
from ostinato.files import sha256
from ostinato.store import registrations
from ostinato.store.registrations import FOLDER, SEAL, STUDY, Registration, digest, numbered, seal_fingerprint
from ostinato.store.tables import now
from ostinato.study.fingerprint import canonical

_SHOWN = 160  # characters of a line


@dataclass(frozen=True)
class Checked:
    """What was found in some registrations. faults: what is not as it was sealed. notes: what a reader should know besides."""

    registrations: tuple[Registration, ...]
    faults: tuple[str, ...]
    notes: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"registrations": [one.record() for one in self.registrations], "faults": list(self.faults), "notes": list(self.notes)}


def faults(folder: Path) -> list[str]:
    """What is not as it was sealed in a folder of registrations; [] where all is, or nothing is there."""
    return list(check_folder(folder).faults)


def check(folder: Path) -> Checked:
    """The registrations in a folder of them, in one of them, in a study's folder or in a store. Raises StoreError where there is none."""
    folder = Path(folder)
    if not folder.is_dir():
        raise StoreError(f"{folder} is {'a file' if folder.exists() else 'not there'}", "registrations are folders",
                         "name a folder of registrations, one of them, the folder of a study, or a store")  # fmt: skip
    if _is_one(folder):
        return check_folder(folder.parent, only=folder)
    places = [folder, folder / FOLDER, *sorted(folder.glob(f"studies/*/{FOLDER}")), *sorted(folder.glob(f"*/{FOLDER}"))]
    places = [place for place in dict.fromkeys(places) if any(_is_one(path) for path in numbered(place).values()) or _missing_in_log(place)]
    if not places:
        raise StoreError(f"{folder} holds no registration", f"one is a folder with {STUDY} and {SEAL}, as studies/NAME/{FOLDER}/0001",
                         "ostinato register STUDY   makes one")  # fmt: skip
    parts = [check_folder(place) for place in places]
    return Checked(*(tuple(item for part in parts for item in getattr(part, name)) for name in ("registrations", "faults", "notes")))


def _is_one(path: Path) -> bool:
    return path.name.isdecimal() and ((path / SEAL).exists() or (path / STUDY).exists())


def check_folder(folder: Path, only: Path | None = None) -> Checked:
    """The registrations of one study. only: this one of them, and its link to the one before it, if that is there."""
    found = numbered(folder)
    chosen = {number: path for number, path in found.items() if only is None or path.name == only.name}
    seals = {number: _seal(path) for number, path in found.items()}
    wrong, notes, read = [], [], []
    sealed_lines = _known_lines(found, seals)
    for number, path in chosen.items():
        before = list(_faults(path, number, seals[number], sealed_lines))
        wrong += before + list(_link(path, number, seals, only is None))
        try:
            read.append(registrations.read(path))
        except StoreError as error:
            wrong += [] if before else [error.what]
    if only is not None and (number := next(iter(chosen))) > 1:
        notes.append(f"{only}: its link to registration {number - 1} is checked, and not that one itself: name {folder} for all of them"
                     if number - 1 in found else
                     f"{only}: its link to the registration before cannot be checked, because that one is not beside it")  # fmt: skip
    if only is None:
        wrong += _missing_in_log(folder)
    times = [(number, str(seal["at"])) for number, seal in seals.items() if number in chosen and isinstance(seal, dict) and seal.get("at")]
    where, today = folder.absolute().parent.name, now()
    notes += [f"{where}: {note}" for note in registrations.backwards(times)]
    notes += [f"{where}: registration {number} says {at}, which lies ahead of this machine's clock" for number, at in times if at > today]
    notes += [note for one in read for note in _results(one, folder.absolute().parent.parent.parent)]
    return Checked(tuple(read), tuple(wrong), tuple(notes))


def _seal(path: Path) -> dict[str, Any] | str:
    """The seal's content, or what is wrong with its file."""
    file = path / SEAL
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return f"{file} is not there"
    except (OSError, ValueError) as error:
        return f"{file} cannot be read: {error}"
    lacks = [key for key in registrations.KEYS if key not in content] if isinstance(content, dict) else ["everything"]
    return f"{file} lacks {', '.join(lacks)}" if lacks else content


def _faults(path: Path, number: int, seal: dict[str, Any] | str, known: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with one registration by itself."""
    if isinstance(seal, str):
        yield seal
        return
    texts = {}
    try:
        files, lines, digests = dict(seal["files"]), dict(seal["lines"]), dict(seal["digests"])
    except (TypeError, ValueError):
        yield f"{path / SEAL} was edited: files, lines and digests are objects"
        return
    edited = [key for key in seal if key not in ("digests", "fingerprint") and digests.get(key) != digest(canonical(seal[key]))]
    for name in files:
        try:
            texts[name] = (path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            yield f"{path / name} is not there"
        except (OSError, ValueError) as error:
            yield f"{path / name} cannot be read: {error}"
        else:
            if registrations.sha256_of(texts[name]) != files[name] and not {"files", "lines"} & set(edited):
                yield from _edited(path / name, texts[name], str(lines.get(name, "")).split(" "), known)
    for key in edited:
        yield f"{path / SEAL}, {_line_of(path / SEAL, key)}: {key} was edited; it reads {_short(json.dumps(seal[key], ensure_ascii=False))}"
    gone = [key for key in digests if key not in seal]
    if gone:
        yield f"{path / SEAL}: {', '.join(gone)} was taken out"
    whole = STUDY in texts and registrations.sha256_of(texts[STUDY]) == files[STUDY]
    if whole and not edited and not gone and seal_fingerprint(seal, texts[STUDY]) != seal["fingerprint"]:
        yield (f"{path / SEAL}, {_line_of(path / SEAL, 'fingerprint')}: the content gives fingerprint "
               f"{seal_fingerprint(seal, texts[STUDY])}, the seal says {seal['fingerprint']}")  # fmt: skip
    if seal["number"] != number:
        yield f"{path / SEAL} is of registration {seal['number']} and lies in {path.name}"


def _edited(file: Path, text: str, sealed: Sequence[str], known: Mapping[str, str]) -> Iterator[str]:
    """The lines of a text that are not those that were sealed, by number."""
    lines = text.split("\n")
    match = difflib.SequenceMatcher(None, sealed, [digest(line) for line in lines], autojunk=False)
    blocks = [block for block in match.get_opcodes() if block[0] != "equal"]
    for _, low, high, start, end in blocks:
        before = [known.get(one) for one in sealed[low:high]]
        for place in range(start, max(end, start + 1)):
            was = before[place - start] if len(before) == end - start else None
            if place >= end:
                yield f"{file}, line {place + 1}: {_lines(high - low)} taken out before it"
            elif low == high:
                yield f"{file}, line {place + 1} was put in: {_short(lines[place].strip())}"
            else:
                yield (f"{file}, line {place + 1} was edited; it reads: {_short(lines[place].strip())}"
                       + (f" (sealed: {_short(was.strip())})" if was else ""))  # fmt: skip
    if not blocks:
        yield f"{file} was edited: it is not the text that was sealed"


def _known_lines(found: Mapping[int, Path], seals: Mapping[int, dict[str, Any] | str]) -> dict[str, str]:
    """Lines of the other files by digest: what an edited line read may still stand in another registration."""
    known: dict[str, str] = {}
    for path in found.values():
        for file in path.glob("*.*"):
            try:
                known |= {digest(line): line for line in file.read_text(encoding="utf-8", errors="replace").split("\n") if line.strip()}
            except OSError:
                continue
    return known


def _link(path: Path, number: int, seals: Mapping[int, dict[str, Any] | str], whole: bool) -> Iterator[str]:
    """What is wrong between a registration and the one before."""
    seal, before = seals[number], seals.get(number - 1)
    if isinstance(seal, str):
        return
    if number == 1:
        if seal["previous"] is not None:
            yield f"{path / SEAL}: the first registration names one before it, {seal['previous']}"
    elif isinstance(before, dict):
        if seal["previous"] != before["fingerprint"]:
            yield f"{path / SEAL}: it follows {seal['previous']}, and registration {number - 1} is {before['fingerprint']}"
    elif before is None and whole and (last := max((one for one in seals if one < number), default=0)) and _follows(seal, seals[last]):
        yield f"registration {number - 1} is missing before {path}, which follows registration {last}: it was gone when this one was made"
    elif before is None and whole:
        yield f"registration {number - 1} is missing before {path} (its fingerprint: {seal['previous']})"


def _follows(seal: Mapping[str, Any], before: dict[str, Any] | str) -> bool:
    return isinstance(before, dict) and seal["previous"] == before["fingerprint"]


def _missing_in_log(folder: Path) -> list[str]:
    """Registrations that the study's log has and the folder has not."""
    from ostinato.store.studies import StudyFolder

    kept = {seal.get("fingerprint") for path in numbered(folder).values() if isinstance(seal := _seal(path), dict)}
    gone = [event for event in StudyFolder(folder.parent).events()
            if event.get("event") == "registered" and event.get("fingerprint") not in kept] if folder.name == FOLDER else []  # fmt: skip
    return [
        f"{folder / str(event.get('number')).zfill(4)}: {folder.parent / 'log.jsonl'} says that it was made at {event.get('at')} with "
        f"fingerprint {event.get('fingerprint')}, and no registration here has that"
        for event in gone
    ]


def _results(one: Registration, root: Path) -> Iterator[str]:
    """A note for every result that was there when the study was sealed and is another one in this store."""
    if not (root / "store.json").exists():
        return
    for result in one.results:
        file = root / result.file
        if result.sha256 and not (file.is_file() and sha256(file) == result.sha256):
            state = "has changed" if file.is_file() else "is gone"
            yield f"{file} was there when registration {one.number} was sealed, and {state} since"


def _line_of(file: Path, key: str) -> str:
    lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((f"line {place}" for place, line in enumerate(lines, 1) if line.startswith(f' "{key}":')), "no line of its own")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _lines(number: int) -> str:
    return "1 line was" if number == 1 else f"{number} lines were"
