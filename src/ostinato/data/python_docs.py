"""The text that every Python carries: the documentation topics and the docstrings of modules, read from source files.

Why: a study needs real prose that is on every machine, with nothing to download and nothing copied into a repository.
How: `ast` over the files, so that no module is imported; files in sorted order; a docstring that occurs again is kept
only where it occurs first, so that copies cannot leak from the training part into the others. One document a topic or a module.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from ostinato.errors import DataError

PACKAGES = ("numpy", "scipy", "torch")
SHORTEST = 32  # bytes; below it a document is a single remark
LEFT_OUT = {
    "dist-packages", "idle_test", "idlelib", "lib2to3", "pydoc_data", "site-packages", "test", "testing", "tests", "turtledemo",
}  # fmt: skip
PRIVATE_BUT_READ = {"_core"}  # folders with a leading underscore are internals; numpy's _core is what numpy documents
_VERSION = 1  # of the rules above: part of the key under which gathered text is cached


def key(name: str) -> str:
    """A name for what would be gathered here: the Python, the packages and the rules, without reading a file."""
    parts = [name, str(_VERSION), sys.version, str(_library())]
    if name == "python-docs-plus":
        parts += [f"{_folder(package)} {package} {importlib.metadata.version(package)}" for package in PACKAGES]
    return f"{name}-{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:16]}"


def gather(name: str, progress: Callable[[str, int, int], None] | None = None) -> Iterator[tuple[str, str]]:
    """(name, text) of every document, in a fixed order. Raises DataError when a source is not installed."""
    roots = [("", _library())]
    if name == "python-docs-plus":
        roots += [(package, _folder(package)) for package in PACKAGES]
    files = [(prefix, root, file) for prefix, root in roots for file in _sources(root)]
    if len(files) < 100:
        raise DataError(
            f"{_library()} holds {len(files)} Python source files",
            f"{name} is read from the source files of the standard library, which this Python came without",
            "use a Python that has them (python.org, pyenv, uv, conda), or name a file or folder of your own as corpus",
        )
    for topic, text in _topics():
        yield f"topic {topic}", text
    seen: set[bytes] = set()
    for done, (prefix, root, file) in enumerate(files):
        if progress and done % 20 == 0:
            progress("gathering docstrings", done, len(files))
        fresh = []
        for docstring in docstrings(file.read_bytes()):
            digest = hashlib.sha256(docstring.encode("utf-8", "replace")).digest()
            if digest not in seen:
                seen.add(digest)
                fresh.append(docstring)
        text = "\n\n".join(fresh)
        if len(text.encode("utf-8", "replace")) >= SHORTEST:
            yield _module(prefix, root, file), text
    if progress:
        progress("gathering docstrings", len(files), len(files))


def docstrings(source: bytes) -> list[str]:
    """The cleaned docstrings of a module and of its classes and functions in the order of the file; none if it does not parse."""
    if b'"""' not in source and b"'''" not in source:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):  # files written for another Python
        return []
    found: list[tuple[int, str]] = []
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = (ast.get_docstring(node) or "").strip()
            if text:
                found.append((node.body[0].lineno, text))
        pending += (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.ExceptHandler))
    return [text for _, text in sorted(found)]


def _library() -> Path:
    return Path(sysconfig.get_paths()["stdlib"])


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)  # of a top-level package: finds it without importing it
    if spec is None or not spec.submodule_search_locations:
        raise DataError(
            f"{package} is not installed",
            f"python-docs-plus is read from the source files of {', '.join(PACKAGES)}",
            f"pip install {package}, or use the corpus python-docs",
        )
    return Path(spec.submodule_search_locations[0])


def _sources(root: Path) -> list[Path]:
    pending, files = [root], []
    while pending:
        for entry in pending.pop().iterdir():
            if entry.is_dir():
                if entry.name not in LEFT_OUT and (not entry.name.startswith(("_", ".", "config-")) or entry.name in PRIVATE_BUT_READ):
                    pending.append(entry)
            elif entry.suffix == ".py":
                files.append(entry)
    return sorted(files, key=lambda file: file.relative_to(root).parts)


def _module(prefix: str, root: Path, file: Path) -> str:
    parts = [prefix, *file.relative_to(root).with_suffix("").parts]
    return ".".join(part for part in parts if part and part != "__init__")


def _topics() -> list[tuple[str, str]]:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise DataError(
            "this Python came without pydoc_data.topics",
            "python-docs contains Python's documentation topics",
            "use a Python that has them (python.org, pyenv, uv, conda), or name a file or folder of your own as corpus",
        ) from None
    return sorted(topics.items())
