"""The files of a folder that hold its text, in order: of one kind, and of one split where the folder has splits.

Three layouts are known. A folder that `Dataset.save_to_disk` wrote lists its Arrow files in state.json, a folder for each split in
dataset_dict.json. A folder as on the hub has a card (README.md) whose `configs` say which files make which split; without a card its
files are called train-00000-of-00005.parquet, or every one of them is called by its split, as train.jsonl beside test.jsonl. In any
other folder all files are read, in the order of their names, through its subfolders and links to folders, each of these once.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import field as default
from pathlib import Path
from typing import Any

import yaml

from ostinato.data.unpack import ARROW, JSONL, PACKINGS, PARQUET, TAR, TEXT, kind_of
from ostinato.errors import DataError

_SPLITS = {
    "train": "train", "training": "train", "validation": "validation", "valid": "validation", "val": "validation", "dev": "validation",
    "test": "test", "testing": "test", "eval": "test", "evaluation": "test",
}  # fmt: skip
OF_MANY = re.compile(r"([\w.]+?)-(\d{5,})-of-(\d{5,})")
"""A file of many: its split, its number, and how many there are."""
_CARD = "README.md"


@dataclass(frozen=True)
class Layout:
    """Files in the order in which they are read; `left_out` counts the others by their suffix; `card` says what was chosen, if any was."""

    files: tuple[str, ...]
    kind: str
    left_out: Counter[str] = default(default_factory=Counter)
    card: dict[str, str] = default(default_factory=dict)


def layout(folder: Path, config: str | None, split: str, whole: bool = True) -> Layout:
    """What of a folder is read. whole: of files that are counted in their names, all must be there.

    Raises DataError when it holds no text, not all of it, no such configuration or no such split.
    """
    if (folder / "dataset_dict.json").is_file() or ((folder / "state.json").is_file() and (folder / "dataset_info.json").is_file()):
        return _saved(folder, config, split)
    files, others = _walk(folder)
    configs = _configs(folder)
    if configs:
        name = _config(folder, config, configs)
        files, card = _of_card(folder, name, configs[name], files, split), {"config": name, "split": split}
    else:
        if config is not None:
            raise DataError(
                f"{folder} has no configuration {config!r}",
                f"configurations are in the card of a data set, the `configs` of its {_CARD}",
                "leave config out, or name the folder that holds its files",
            )
        splits = _by_name(files)
        card = {"split": split} if splits else {}
        if splits:
            files = _of_split(folder, splits, split)
        elif split != "train":
            raise DataError(
                f"{folder} has no split {split!r}",
                f"splits are in the card of a data set, or in the names of its files, as {split}-00000-of-00001.parquet",
                "leave split out: all of the folder is read",
            )
    kind, files, more = _one_kind(folder, files, others)
    gone = missing(files) if whole else None
    if gone:
        raise DataError(
            f"{folder} has no {gone}, and there are files after or before it",
            "names as train-00000-of-00005.parquet say how many files there are, and all of them are read",
            "fetch the rest; or bound the text to what is there, for example most: 1G",
        )
    return Layout(tuple(os.path.join(folder, file) for file in files), kind, others + more, card)


def _walk(folder: Path) -> tuple[list[str], Counter[str]]:
    """Every file of a known kind below a folder, by its path from there, in order; the others, counted. Hidden ones are passed over."""
    files: list[str] = []
    others: Counter[str] = Counter()
    pending, seen = [""], set()
    while pending:
        here = pending.pop()
        try:
            status = os.stat(folder / here)
            if (status.st_dev, status.st_ino) in seen:
                continue  # a link back to a folder that is read already
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(folder / here) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    path = f"{here}/{entry.name}" if here else entry.name
                    known = kind_of(entry.name)[0] is not None
                    if not _leads_nowhere(entry):
                        if entry.is_dir():
                            pending.append(path)
                        elif known and entry.is_file():
                            files.append(path)
                        else:
                            others[os.path.splitext(entry.name)[1] or entry.name] += entry.is_file()
                    elif known:
                        raise DataError(
                            f"{folder / path} is a link to nothing, or to itself",
                            "every file of a corpus is there",
                            "remove the link, or fetch what it points to",
                        )
        except OSError as error:
            raise DataError(
                f"{folder / here} cannot be read: {error.strerror}", "every folder of a corpus is readable", "check its permissions"
            ) from None
    files.sort(key=lambda path: path.split("/"))
    return files, +others


def _leads_nowhere(entry: os.DirEntry) -> bool:
    """Whether it is a link to what is not there, or to itself."""
    try:
        return entry.is_symlink() and not os.path.exists(entry.path)
    except OSError:
        return True


def _one_kind(folder: Path, files: list[str], others: Counter[str]) -> tuple[str, list[str], Counter[str]]:
    there: dict[str, list[str]] = {}
    for file in files:
        there.setdefault(kind_of(file)[0] or "", []).append(file)
    notes = [file for file in there.pop("Markdown", []) if file != _CARD]
    if not there and notes:
        return "Markdown", notes, Counter({".md": 1} if len(notes) < len(files) else {})
    if not there:
        seen = ", ".join(f"{count} {suffix}" for suffix, count in (others + Counter({".md": len(files)})).most_common(5)) or "nothing"
        raise DataError(
            f"{folder} holds no text ({seen})",
            f"a folder holds {', '.join((*TEXT, *JSONL, *PARQUET, *ARROW, *TAR))} files, the text ones also packed ({', '.join(PACKINGS)})",
            "name another folder, or one file",
        )
    if len(there) > 1:
        order = ["Parquet", "JSONL", "text", "Arrow", "tar"]
        seen = ", ".join(f"{len(there[kind])} {kind}" for kind in order if kind in there)
        raise DataError(
            f"{folder} holds files of several kinds ({seen})",
            "a folder is read as one kind",
            "move one kind to a folder of its own, and name that",
        )
    kind, chosen = next(iter(there.items()))
    return kind, chosen, Counter({".md": len(files) - len(chosen)} if len(files) > len(chosen) else {})


def missing(files: Iterable[str]) -> str | None:
    """The first of train-00000-of-00005 to train-00004-of-00005 that is not there, as far as names say how many there are."""
    groups: dict[tuple[str, str, str], set[int]] = {}
    for file in files:
        folder, _, name = file.rpartition("/")
        match = OF_MANY.match(name)
        if match:
            groups.setdefault((f"{folder}/{match[1]}" if folder else match[1], match[3], name[match.end() :]), set()).add(int(match[2]))
    for (start, total, end), there in groups.items():
        gone = next((number for number in range(int(total)) if number not in there), None)
        if gone is not None:
            return f"{start}-{gone:05}-of-{total}{end}"
    return None


# --- splits


def _by_name(files: list[str]) -> dict[str, list[str]]:
    """The files of each split where their names say it; empty where they do not, or where all are of one split called train."""
    found: dict[str, list[str]] = {}
    for file in files:
        match = OF_MANY.match(file.rpartition("/")[2])
        if match:
            found.setdefault(match[1], []).append(file)
    if not found:
        for file in files:
            if kind_of(file)[0] == "Markdown":
                continue
            parts = [*file.lower().split("/")[:-1], file.lower().rpartition("/")[2].partition(".")[0]]
            named = next((_SPLITS[part] for part in reversed(parts) if part in _SPLITS), None)
            if named is None:
                return {}
            found.setdefault(named, []).append(file)
        if len(found) < 2:
            return {}
    return found


def _of_split(folder: Path, splits: dict[str, list[str]], split: str, where: str = "") -> list[str]:
    files = splits.get(split) or splits.get(_SPLITS.get(split, split))
    if not files:
        raise no_split(f"{folder}{f', {where},' if where else ''}", split, list(splits))
    return files


def no_split(where: str, split: str, splits: list[str]) -> DataError:
    """The error for a split that is not there: those that are, and the nearest."""
    near = difflib.get_close_matches(split, splits, 1, 0.5) or splits[:1]
    return DataError(
        f"{where} has no split {split!r}",
        f"its splits are {', '.join(splits) or 'none'}",
        f"split: {near[0]}" if near else "leave split out",
    )


def no_config(where: str, config: str | None, configs: list[str]) -> DataError:
    """The error for a configuration that is not there, or not given: those that are, and the nearest."""
    near = difflib.get_close_matches(config or "", configs, 1, 0.4) or configs[:1]
    return DataError(
        f"{where} has no configuration {config!r}" if config else f"{where} has {len(configs)} configurations, and none is named",
        f"its configurations are {', '.join(configs[:30]) or 'none'}{', …' if len(configs) > 30 else ''}",
        f"config: {near[0]}" if near else "leave config out",
    )


# --- the card of a data set


def _configs(folder: Path) -> dict[str, Any]:
    """The `configs` of the card's front matter by name; empty without."""
    card = folder / _CARD
    if not card.is_file():
        return {}
    text = card.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n").lstrip("\ufeff")
    front = text[4:].partition("\n---")[0] if text.startswith("---\n") else ""
    try:
        given = yaml.safe_load(front) or {}
        configs = given.get("configs") or []
        return {str(entry.get("config_name", "default")): entry for entry in configs if "data_files" in entry or "data_dir" in entry}
    except (yaml.YAMLError, AttributeError, TypeError) as error:
        raise _no_card(card, str(error).splitlines()[0]) from None


def _no_card(card: Path, why: str) -> DataError:
    return DataError(
        f"{card} cannot be understood ({why[:200]})",
        "a card begins with YAML between two lines of ---; its `configs` is a list, the data_files of each a list of split and path",
        "fetch it again, or remove it: then all files are read",
    )


def _config(folder: Path, config: str | None, configs: dict[str, Any]) -> str:
    if config is None:
        chosen = [name for name, entry in configs.items() if entry.get("default")]
        config = next((name for name in (*chosen, "default") if name in configs), None)
        config = next(iter(configs)) if config is None and len(configs) == 1 else config
    if config not in configs:
        raise no_config(str(folder), config, list(configs))
    return config


def _of_card(folder: Path, name: str, entry: dict[str, Any], files: list[str], split: str) -> list[str]:
    """The files of a split of a configuration, out of `files`, as the patterns of the card say."""
    where, base = f"configuration {name}", str(entry.get("data_dir") or "").strip("/")
    given = entry.get("data_files")
    if given is None:
        inside = [file for file in files if not base or file.startswith(f"{base}/")]
        return _of_split(folder, _by_name(inside) or {"train": inside}, split, where)
    if isinstance(given, dict):  # split: pattern
        given = [{"split": key, "path": path} for key, path in given.items()]
    elif not (isinstance(given, list) and given and isinstance(given[0], dict)):
        given = [{"split": "train", "path": given}]
    splits: dict[str, list[str]] = {}
    for part in given:
        paths = part.get("path") if isinstance(part, dict) else None
        paths = [paths] if isinstance(paths, str) else paths
        if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths) or "split" not in part:
            raise _no_card(folder / _CARD, f"configuration {name} has data_files: {part}")
        splits.setdefault(str(part["split"]), []).extend(paths)
    chosen: dict[str, None] = {}
    for pattern in _of_split(folder, splits, split, where):
        try:
            wanted = re.compile(_regex(f"{base}/{pattern}" if base else pattern.removeprefix("./")))
        except re.error as error:
            raise _no_card(folder / _CARD, f"the pattern {pattern}: {error}") from None
        there = [file for file in files if wanted.fullmatch(file)]
        if not there:
            raise DataError(
                f"{folder} holds no text file {pattern}, which its card names for the split {split}",
                "what the card of a data set names is there, as text, JSONL, Parquet, Arrow or tar",
                "fetch the rest of it, or name a folder or a file of what is there",
            )
        chosen.update(dict.fromkeys(there))
    return list(chosen)


def _regex(pattern: str) -> str:
    """A pattern of a card: * and ? stay within a folder, ** crosses them."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", pattern)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(known.get(part) or (part if part.startswith("[") else re.escape(part)) for part in parts)


# --- what Dataset.save_to_disk writes


def _saved(folder: Path, config: str | None, split: str) -> Layout:
    if config is not None:
        raise DataError(f"{folder} has no configuration {config!r}", "a saved data set is of one configuration", "leave config out")
    here = folder
    try:
        if (folder / "dataset_dict.json").is_file():
            splits = json.loads((folder / "dataset_dict.json").read_text(encoding="utf-8"))["splits"]
            if split not in splits:
                raise no_split(str(folder), split, splits)
            here = folder / split
        state = json.loads((here / "state.json").read_text(encoding="utf-8"))
        files = [str(here / entry["filename"]) for entry in state["_data_files"]]
        own = state.get("_split")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{here} cannot be read as a saved data set ({error})",
            "Dataset.save_to_disk writes state.json beside the Arrow files that it lists",
            "save it again",
        ) from None
    if here == folder and split != "train" and own != split:
        raise no_split(str(folder), split, [own] if own else [])
    gone = [file for file in files if not os.path.isfile(file)]
    if gone or not files:
        raise DataError(
            f"{gone[0]} is not there" if gone else f"{here} lists no file", "the files that state.json lists are there", "save it again"
        )
    return Layout(tuple(files), "Arrow", card={"split": split if here != folder or not own else own})
