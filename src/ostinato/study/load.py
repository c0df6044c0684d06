"""A study by path or by shipped name: read, held against the shape of a study, resolved, checked. Every problem is told at once."""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path

from ostinato.errors import StudyError
from ostinato.study import checks, strict
from ostinato.study.derive import expanded
from ostinato.study.idle import idle
from ostinato.study.predictions import untaken
from ostinato.study.problems import Problem, refuse
from ostinato.study.reading import Section, Unreadable, read
from ostinato.study.records import Study
from ostinato.study.resolve import resolve

HERE = Path(__file__).parent
SHIPPED = HERE / "shipped"
SUFFIXES = (".yaml", ".yml")


def load_study(source: str | Path, size: str | None = None) -> Study:
    """The study in a YAML file, or a shipped one by name, in the asked size (default: its first).

    Raises StudyError that tells every problem with its section, key, line and the nearest right name.
    """
    path = _find(source)
    file = str(source) if path.parent != SHIPPED else f"shipped study {path.stem}"
    content, tree, problems = read_file(path, file, "study")
    if "table" in tree and "arms" not in tree:
        raise StudyError(f"{file} is a replay", "a published table is judged, not planned or run", f"ostinato judge {source}")
    refuse(file, problems + strict.check(tree))
    resolved = resolve(tree, path.stem, size, path.parent)
    refuse(file, resolved.problems)
    refuse(file, checks.check(resolved))
    study = resolved.study
    warnings = (*dict.fromkeys(resolved.warnings), *checks.same_arms(study), *idle(study), *untaken(study))
    return study.model_copy(update={"warnings": warnings, "path": str(path.absolute()), "given": content.decode("utf-8-sig")})


def read_file(path: Path, file: str, kind: str) -> tuple[bytes, Section, list[Problem]]:
    """The bytes of a YAML file, its tree, and what is wrong with it already.  file, kind: what errors call it.

    Raises StudyError for one that cannot be opened, or read at all.
    """
    try:
        content = path.read_bytes()
        return content, *read(content)
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror or error}", f"a {kind} is a readable YAML file", "correct the path") from None
    except Unreadable as error:
        refuse(file, [error.problem])
        raise  # never: refuse raises where there is a problem


def _find(source: str | Path) -> Path:
    path = expanded(source)
    named = SHIPPED / f"{source}.yaml"
    if isinstance(source, str) and (source in _shipped_names() or (source.startswith("replays/") and named.exists())):
        return named
    if path.is_dir():
        inside = sorted(file.name for file in path.iterdir() if file.suffix in SUFFIXES)
        raise StudyError(f"{path} is a folder", "a study is one YAML file", f"{path / inside[0]}" if inside else "give the file")
    if path.exists():
        return path
    names = _shipped_names()
    beside = [file.name for file in path.parent.iterdir() if file.suffix in SUFFIXES] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=1) or difflib.get_close_matches(path.stem, names, n=1)
    fix = f"{near[0]}, or ostinato new {path.with_suffix('.yaml').name} to write one" if near else f"a path, or one of {', '.join(names)}"
    raise StudyError(f"there is no study {str(source)!r}", "a study is a YAML file, or the name of a shipped study", fix)


@cache
def _shipped_names() -> tuple[str, ...]:
    return tuple(sorted(file.stem for file in SHIPPED.glob("*.yaml")))


def shipped() -> dict[str, str]:
    """The shipped studies: name and question."""
    return {name: _question(SHIPPED / f"{name}.yaml") for name in _shipped_names()}


def is_shipped(study: Study) -> bool:
    """Whether it was read from a shipped file, so that its name alone finds it again."""
    return study.path is not None and Path(study.path).parent == SHIPPED


def _question(path: Path) -> str:
    tree, _ = read(path.read_bytes())
    return " ".join(str(tree.get("question") or "").split())


def sizes(source: str | Path) -> tuple[str, ...]:
    """The sizes of a study, the default first; empty when it has only one. Raises StudyError when it cannot be read."""
    path = _find(source)
    try:
        tree, _ = read(path.read_bytes())
    except Unreadable as error:
        refuse(str(source), [error.problem])
    found = tree.get("sizes")
    return tuple(found) if isinstance(found, dict) else ()


def template() -> str:
    """A commented study to start from, which loads as it is."""
    return (HERE / "template.yaml").read_text(encoding="utf-8")
