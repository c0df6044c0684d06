"""YAML read so that every scalar stays the text that was written, with its line; what it means is for the types to decide.

`lr: 1e-3`, `012`, `no` and `1:30` therefore arrive as those texts. Anchors, aliases and `<<` work; a key twice does not.
"""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from ostinato.study.problems import Problem

MOST_VALUES = 50_000
MOST_BYTES = 1_000_000
_NULLS = {"", "~", "null", "Null", "NULL"}
_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "map", "seq", "int", "float", "bool", "null")}
_Loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class Text(str):
    """A scalar as it was written. line: from 1.  place: the keys that lead to it."""

    line: int
    place: tuple[str, ...]


class Items(list):
    """A list, with its line and its place."""

    line: int
    place: tuple[str, ...]


class Section(dict):
    """A mapping from text, with its line, its place and the line of each key."""

    line: int
    place: tuple[str, ...]
    key_lines: dict[str, int]


class Unreadable(Exception):
    """A text with which nothing further can be done."""

    def __init__(self, problem: Problem):
        self.problem = problem
        super().__init__(str(problem))


def read(content: bytes) -> tuple[Section, list[Problem]]:
    """The tree of a study file and what is wrong with it as YAML. Raises Unreadable when there is no tree to speak of."""
    text = _decoded(content)
    try:
        documents = list(yaml.compose_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        raise Unreadable(_syntax(text, error)) from None
    except yaml.YAMLError as error:
        at = getattr(error, "position", None)
        line = None if not isinstance(at, int) else text.count("\n", 0, at) + 1
        raise Unreadable(Problem(line, "YAML", f"{getattr(error, 'reason', error)}", "a study is plain text")) from None
    except RecursionError:
        raise Unreadable(Problem(None, "YAML", "brackets are nested too deep", "a study nests a few sections", "close them")) from None
    documents = [node for node in documents if node is not None]
    if not documents or (isinstance(documents[0], yaml.ScalarNode) and documents[0].value.strip() in _NULLS):
        raise Unreadable(
            Problem(None, "the file", "it is empty", "a study has at least arms", "ostinato new FILE writes one to start from")
        )
    if len(documents) > 1:
        line = documents[1].start_mark.line + 1
        raise Unreadable(Problem(line, "the file", "a second document begins after ---", "one file is one study", "split the file"))
    if not isinstance(documents[0], yaml.MappingNode):
        kind = "a list" if isinstance(documents[0], yaml.SequenceNode) else "a single value"
        raise Unreadable(
            Problem(
                documents[0].start_mark.line + 1,
                "the file",
                f"it holds {kind}",
                "a study is sections and keys, as model: …",
                "ostinato new FILE writes one to start from",
            )
        )
    builder = _Builder()
    return builder.section(documents[0], ()), builder.problems


def _decoded(content: bytes) -> str:
    if len(content) > MOST_BYTES:
        raise Unreadable(
            Problem(None, "the file", f"it has {len(content):,} bytes", f"a study has at most {MOST_BYTES:,}", "is this the right file?")
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Unreadable(
            Problem(line, "the file", f"byte {content[error.start]:#04x} is not UTF-8", "a study is UTF-8 text", "save it as UTF-8")
        ) from None


def _syntax(text: str, error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    line = None if mark is None else mark.line + 1
    written = text.splitlines()[mark.line] if mark is not None and mark.line < len(text.splitlines()) else ""
    if "\t" in written[: len(written) - len(written.lstrip())] or written[mark.column : mark.column + 1] == "\t" if mark else False:
        return Problem(line, "YAML", "a tab where only spaces may stand", "YAML indents with spaces", "replace the tab by spaces")
    what = " ".join(part for part in (error.context, error.problem) if part)
    fix = "keys that belong together stand in one column; put \"…\" around text that holds ': ', ' #', { } or [ ]"
    return Problem(line, "YAML", f"{what} (column {mark.column + 1 if mark else '?'})", "the file must be YAML", fix)


class _Builder:
    """Turns nodes into sections, lists and texts, and notes what is wrong on the way."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.open: list[yaml.Node] = []
        self.values = 0

    def value(self, node: yaml.Node, place: tuple[str, ...]) -> Section | Items | Text | None:
        self.values += 1
        line = node.start_mark.line + 1
        if self.values > MOST_VALUES:
            raise Unreadable(
                Problem(line, where(place), f"more than {MOST_VALUES:,} values", "aliases are written out in full", "use fewer")
            )
        if any(node is outer for outer in self.open):
            self.problems.append(
                Problem(line, where(place), "an alias that contains itself", "a section cannot hold itself", "write it out")
            )
            return None
        if node.tag not in _TAGS:
            self.problems.append(
                Problem(line, where(place), f"the tag {node.tag}", "values are plain: their key says how to read them", "leave it out")
            )
        if isinstance(node, yaml.MappingNode):
            return self.section(node, place)
        if isinstance(node, yaml.SequenceNode):
            items = Items()
            items.line, items.place = line, place
            self.open.append(node)
            items.extend(self.value(item, (*place, str(number))) for number, item in enumerate(node.value, 1))
            self.open.pop()
            return items
        if not node.style and node.value in _NULLS:
            return None
        text = Text(node.value)
        text.line, text.place = line, place
        return text

    def section(self, node: yaml.MappingNode, place: tuple[str, ...]) -> Section:
        section = Section()
        section.line, section.place, section.key_lines = node.start_mark.line + 1, place, {}
        inherited: list[yaml.Node] = []
        self.open.append(node)
        for key, value in self._pairs(node, place):
            line = key.start_mark.line + 1
            if key.value in section.key_lines:
                first = section.key_lines[key.value]
                self.problems.append(
                    Problem(
                        line,
                        where((*place, key.value)),
                        f"key {key.value!r} is given twice, in lines {first} and {line}",
                        "a key stands once in its section",
                        "keep one of them",
                    )
                )
                continue
            section.key_lines[key.value] = line
            if key.value == "<<" and not key.style:
                inherited = value.value if isinstance(value, yaml.SequenceNode) else [value]
            else:
                section[key.value] = self.value(value, (*place, key.value))
        for source in inherited:
            self._inherit(section, source, place)
        section.key_lines.pop("<<", None)
        self.open.pop()
        return section

    def _pairs(self, node: yaml.MappingNode, place: tuple[str, ...]) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and not (not key.style and key.value in _NULLS):
                yield key, value
            else:
                self.problems.append(
                    Problem(key.start_mark.line + 1, where(place), "a key that is not a word", "keys are plain text", "name it")
                )

    def _inherit(self, section: Section, source: yaml.Node, place: tuple[str, ...]) -> None:
        taken = self.value(source, place)
        if not isinstance(taken, Section):
            self.problems.append(
                Problem(
                    source.start_mark.line + 1,
                    where(place),
                    "<< that is not followed by sections",
                    "<< takes the keys of an anchored section",
                    "write <<: *name",
                )
            )
            return
        for key, value in taken.items():
            if key not in section:
                section[key] = value
                section.key_lines[key] = taken.key_lines[key]


def where(place: tuple[str, ...]) -> str:
    """A place in words: recipe.lr, or the top level."""
    return ".".join(place) if place else "the top level"
