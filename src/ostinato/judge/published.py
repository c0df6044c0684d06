"""A published table: arms by measures, as printed. Read from CSV or JSON; every number keeps how exactly it was printed.

The first column is `arm`; `seed` and `against` (the arm that it is compared with) may stand beside it. Every other header is a measure of
the language without its arm: `loss(unit=bits)`, `gain(class=new)`, `params`, `lens(application=8, class=k>=8)`. `delta(...)` is minus the
gain, the sign in which papers print it. An empty cell, or a dash, is not printed. JSON is a list of such records, or {arm: record}.
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from ostinato.claims import MEASURES, Measure, parse_expression
from ostinato.errors import OstinatoError, StudyError
from ostinato.study.numbers import decimal, real

ARM, SEED, AGAINST, DELTA = "arm", "seed", "against", "delta"
MOST_BYTES = 10_000_000
DEFAULTS = {"unit": "nats", "part": "validation"}
_LEAST = {"loss": 0, "ppl": 1, "params": 0, "flops": 0, "flops_per_token": 0, "seconds": 0, "peak_bytes": 0, "tokens": 0}
"""What a printed number cannot be below."""
_ANY = '"the arm of a row"'
_BLANK = ("", "-", "–", "—")
_SUFFIX = re.compile(r"(Ki|Mi|Gi|[kKMGBT])?$")
_HEADER = re.compile(r"\s*([A-Za-z_]+)\s*(?:\((.*)\))?\s*", re.DOTALL)


@dataclass(frozen=True)
class What:
    """A measure without its arm and seed.  options: sorted, with `unit` and `part` where the measure has them."""

    name: str
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        said = [f"{key}={value}" for key, value in self.options if DEFAULTS.get(key) != value]
        return f"{self.name}({', '.join(said)})" if said else self.name

    def get(self, option: str) -> str | None:
        return dict(self.options).get(option)

    def but(self, name: str | None = None, **options: str | None) -> What:
        """With another name, or other options; None takes an option away."""
        changed = {**dict(self.options), **options}
        return What(name or self.name, tuple(sorted((key, value) for key, value in changed.items() if value is not None)))


def what(term: Measure) -> What:
    """What a term asks of its arm, whichever seed."""
    known = {key: value for key, value in DEFAULTS.items() if key in MEASURES[term.name].options}
    return What(term.name).but(**{**known, **dict(term.options), "seed": None})


@dataclass(frozen=True)
class Printed:
    """A number as printed: `half` a unit of its last digit is what rounding leaves open.  turned: a delta, whose gain is `value`."""

    value: float
    half: float
    text: str
    turned: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        return self.value - self.half, self.value + self.half

    @property
    def shown(self) -> str:
        """The same digits with the sign of `value`."""
        digits = self.text.lstrip("+-−")
        if not self.turned:
            return self.text.replace("-", "−", 1) if self.text.startswith("-") else self.text
        return ("+" if self.value > 0 else "−" if self.value < 0 else "") + digits

    def __neg__(self) -> Printed:
        return Printed(-self.value, self.half, self.text, not self.turned)


def printed(text: str) -> Printed:
    """50.33M, 2.17e8, −0.0143 (any minus). Raises ValueError with the rule."""
    plain = text.strip().replace("−", "-")
    value, suffix = real(plain), _SUFFIX.search(plain)[0]
    exponent = Decimal(plain.removesuffix(suffix).replace("_", "")).as_tuple().exponent
    return Printed(value, float(Decimal(1).scaleb(int(exponent)) / 2 * decimal("1" + suffix)), text.strip())


@dataclass(frozen=True)
class Line:
    """What is printed of one run.  seed: None where the table does not say; against: "" for the reference.  place: where it stands."""

    arm: str
    seed: int | None
    against: str
    cells: Mapping[What, Printed]
    place: str


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """name: the file.  lines: in its order.  columns: what it prints, of some arm at least."""

    name: str
    lines: tuple[Line, ...]
    columns: tuple[What, ...]

    @cached_property
    def arms(self) -> dict[str, list[Line]]:
        """Each arm's lines, one a seed, in the order of the table."""
        found: dict[str, list[Line]] = {}
        for line in self.lines:
            found.setdefault(line.arm, []).append(line)
        return found


def read_table(path: Path) -> PublishedTable:
    """Raises StudyError that names file, row, column, and the nearest right name."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StudyError(f"the table {path}: {error.strerror or error}", "a table is a CSV or JSON file", "correct the path") from None
    if len(content) > MOST_BYTES:
        raise StudyError(f"the table {path} has {len(content):,} bytes", f"a published table has at most {MOST_BYTES:,}", "is it the file?")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StudyError(f"the table {path}, byte {error.start}: not UTF-8", "a table is UTF-8 text", "save it as UTF-8") from None
    if path.suffix.lower() == ".json":
        return as_table(path.name, _json(path.name, text))
    if path.suffix.lower() == ".csv":
        return as_table(path.name, _csv(path.name, text))
    raise StudyError(f"the table {path} is of no kind known here", "a table is a .csv or a .json file", "save it as CSV")


def as_table(name: str, rows: Iterable[tuple[str, Mapping[str, str]]]) -> PublishedTable:
    """rows: (where it stands, {header: text}). Raises StudyError."""
    headers: dict[str, tuple[What, int]] = {}
    lines: list[Line] = []
    seen: dict[tuple[str, int | None], str] = {}
    for place, row in rows:
        for header in row:
            if header not in headers and header not in (ARM, SEED, AGAINST):
                found = _header(name, header)
                twin = next((other for other, (known, _) in headers.items() if known == found[0]), None)
                if twin is not None:
                    raise StudyError(f"{name}: the columns {twin!r} and {header!r} are one measure", "a measure has one column", "keep one")
                headers[header] = found
        line = _line(name, place, row, headers)
        key = (line.arm, line.seed)
        if key in seen:
            seed = "without a seed" if line.seed is None else f"with seed {line.seed}"
            raise StudyError(f"{name}, {place}: arm {line.arm!r} {seed} stands in {seen[key]} already", "a run has one row",
                             "give each its seed in a column `seed`, or its own name")  # fmt: skip
        seen[key] = place
        lines.append(line)
    if not lines:
        raise StudyError(f"{name} has no rows", "a table has one row an arm and seed", "arm,loss(unit=bits)")
    arms = dict.fromkeys(line.arm for line in lines)
    for line in lines:
        if line.against and line.against not in arms:
            raise unknown(f"{name}, {line.place}, column {AGAINST!r}: no arm {line.against!r}", line.against, arms)
    return PublishedTable(name, tuple(lines), tuple(known for known, _ in headers.values()))


def unknown(told: str, name: str, names: Iterable[str]) -> StudyError:
    """The error of a name that is not there, with the nearest that is."""
    names = list(dict.fromkeys(names))
    near = difflib.get_close_matches(name, names, n=1)
    return StudyError(told, f"there are {', '.join(names[:20])}", near[0] if near else "")


def column(header: str) -> tuple[What, int]:
    """The measure that a header names, and the sign in which its numbers are a gain. Raises OstinatoError."""
    match = _HEADER.fullmatch(header)
    name = match[1] if match else header.strip()
    names = [*MEASURES, DELTA]
    if name not in names:
        near = difflib.get_close_matches(name.lower(), [*names, ARM, SEED, AGAINST], n=1)
        rule = f"a column is {ARM}, {SEED}, {AGAINST}, or one of {', '.join(names)}"
        raise StudyError(f"no measure {name[:60]!r}", rule, near[0] if near else "")
    real_name, sign = ("gain", -1) if name == DELTA else (name, 1)
    options = (match[2] or "").strip()
    term = parse_expression(f"{real_name}({_ANY}{', ' + options if options else ''})")
    if "seed" in dict(term.options):
        raise StudyError("a seed in a header", "a row says its seed", f"a column {SEED!r}")
    return what(term), sign


def _header(name: str, header: str) -> tuple[What, int]:
    try:
        return column(header)
    except OstinatoError as error:
        raise StudyError(f"{name}, column {header!r}: {error.what}", error.rule, error.fix) from None


def _line(name: str, place: str, row: Mapping[str, str], headers: Mapping[str, tuple[What, int]]) -> Line:
    arm = row.get(ARM, "").strip()
    if not arm:
        raise StudyError(f"{name}, {place}: there is no arm", f"every row names its arm, in a column {ARM!r}", "")
    where = f"{name}, {place} (arm {arm})"
    seed = row.get(SEED, "").strip()
    if seed and not re.fullmatch(r"\d{1,18}", seed):
        rule, fix = "a seed is a whole number", "leave it empty, if it is not known"
        raise StudyError(f"{where}, column {SEED!r}: {seed[:60]!r} is no seed", rule, fix)
    cells = {}
    for header, text in row.items():
        if header in headers and text.strip() not in _BLANK:
            known, sign = headers[header]
            try:
                number = printed(text)
            except ValueError as error:
                raise StudyError(f"{where}, column {header!r}: {error}", "a cell is one number, or empty", "") from None
            if known.name in _LEAST and number.value < _LEAST[known.name]:
                said = f"{where}, column {header!r}: {text.strip()} is no {known.name}"
                raise StudyError(said, f"{known.name} is {_LEAST[known.name]} or more", "leave it empty, if it is not known")
            cells[known] = -number if sign < 0 else number
    return Line(arm, int(seed) if seed else None, row.get(AGAINST, "").strip(), cells, place)


def _csv(name: str, text: str) -> Iterator[tuple[str, dict[str, str]]]:
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        headers = [header.strip() for header in next(reader, [])]
        if not headers or headers[0] != ARM:
            first = headers[0] if headers else ""
            raise StudyError(f"{name}: the first column is {first!r}", f"the first column of a table is {ARM!r}", "arm,loss(unit=bits)")
        twice = next((header for number, header in enumerate(headers) if header in headers[:number]), None)
        if twice is not None:
            raise StudyError(f"{name}: two columns {twice!r}", "a measure has one column", "keep one of them")
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            place = f"line {reader.line_num}"
            if len(cells) != len(headers):
                raise StudyError(f"{name}, {place}: {len(cells)} cells under {len(headers)} headers", "a row has a cell for every column",
                                 'put "…" around text that holds a comma')  # fmt: skip
            yield place, dict(zip(headers, cells, strict=True))
    except csv.Error as error:
        raise StudyError(f"{name}, line {reader.line_num}: {error}", "a table is CSV with commas", "") from None


def _json(name: str, text: str) -> Iterator[tuple[str, dict[str, str]]]:
    rule = "a table is a list of records, {arm: …, measure: number}, or {arm: {measure: number}}"
    try:
        tree = json.loads(text, parse_float=str, parse_int=str, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise StudyError(f"{name}: {error}", rule, "") from None
    if isinstance(tree, dict):
        tree = [{ARM: arm, **record} if isinstance(record, dict) else record for arm, record in tree.items()]
    if not isinstance(tree, list):
        raise StudyError(f"{name} holds neither a list nor a section", rule, "")
    for number, record in enumerate(tree, 1):
        if not isinstance(record, dict):
            raise StudyError(f"{name}, row {number}: no record", rule, "")
        yield f"row {number}", {key.strip(): _text(name, number, key, value) for key, value in record.items()}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} stands twice")
        found[key] = value
    return found


def _text(name: str, number: int, key: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise StudyError(f"{name}, row {number}, column {key!r}: {value!r} is no number", "a cell is one number, or null", "")
    return value
