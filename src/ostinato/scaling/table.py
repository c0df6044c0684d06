"""A table of runs: what the law is fitted to, from a CSV or Parquet file, and what of it was left out and why.

    N_once, N_rec   unique parameters outside embedding and head that run once, and r times
    r               times that the repeated part runs, 1 for a model that repeats nothing
    D               training tokens
    loss            of validation, nats a token
    budget, arm, seed, treatment   may be left out

A column of another name or in another unit is mapped by whoever knows: nothing is guessed. A row with a number that is none, or that
cannot be, is left out and named; a row that stands twice is counted once and named.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ostinato.errors import FitError
from ostinato.scaling.files_of_runs import number, read_file
from ostinato.scaling.law import Rows

NUMBERS = ("N_once", "N_rec", "r", "D", "loss")
WORDS = ("budget", "arm", "seed", "treatment")
UNITS = {"nats": 1.0, "bits": math.log(2)}
FEW_PARAMETERS, FEW_TOKENS = 2e3, 1e4
TOKENS_A_PARAMETER = 5.0
"""Fewer than training usually has: what tells billions of tokens from millions."""
POWERS = {"millions": "1e6", "billions": "1e9"}
ABOVE_0 = ("D", "loss")


@dataclass(frozen=True)
class RunTable:
    """Runs that can be used, n of them: arrays (n,) in parameters, tokens and nats, and words (n,), "" where there are none.

    places: where each row stands in its source.  notes: what was left out or counted once.  warnings: what looks like a mistake.
    """

    N_once: np.ndarray
    N_rec: np.ndarray
    r: np.ndarray
    D: np.ndarray
    loss: np.ndarray
    budget: tuple[str, ...]
    arm: tuple[str, ...]
    seed: tuple[str, ...]
    treatment: tuple[str, ...]
    places: tuple[str, ...]
    source: str = ""
    unit: str = "nats"
    notes: tuple[str, ...] = field(default=())
    warnings: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.loss)

    @property
    def rows(self) -> Rows:
        """What the law is fitted to."""
        return Rows.of(self.N_once, self.N_rec, self.r, self.D, self.loss)

    @property
    def unique(self) -> np.ndarray:
        """Unique parameters, (n,)."""
        return self.N_once + self.N_rec

    @property
    def flops(self) -> np.ndarray:
        """About what training took: 6 FLOPs a token and applied parameter, (n,)."""
        return 6.0 * (self.N_once + self.r * self.N_rec) * self.D

    def some(self, chosen: np.ndarray) -> RunTable:
        """The rows of a mask or of places, in that order."""
        at = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        words = {name: tuple(getattr(self, name)[place] for place in at) for name in (*WORDS, "places")}
        return replace(self, **{name: getattr(self, name)[at] for name in NUMBERS}, **words)

    def records(self) -> list[dict[str, Any]]:
        """One object a row, with the words that there are."""
        kept = [name for name in WORDS if any(getattr(self, name))]
        return [{**{name: float(getattr(self, name)[at]) for name in NUMBERS}, **{name: getattr(self, name)[at] for name in kept}}
                for at in range(len(self))]  # fmt: skip

    def name(self, at: int) -> str:
        """Row `at` as a reader finds it: its arm and seed, else where it stands."""
        if not self.arm[at]:
            return self.places[at]
        return self.arm[at] + (f", seed {self.seed[at]}" if self.seed[at] else "")


def read_table(path: Path | str, columns: Iterable[str] = (), unit: str = "nats") -> RunTable:
    """Read a CSV, TSV or Parquet file.

    columns: NAME=COLUMN or NAME=COLUMN*FACTOR for every column of another name or unit.  unit: of losses, nats or bits a token.
    Raises FitError for a file that is no table, a column that is missing, and where no row can be used.
    """
    path = Path(path).expanduser()
    file = read_file(path)
    mapped = mapping(columns, list(file.columns))
    found = {name: file.columns[source] for name, (source, _) in mapped.items()}
    return made(found, file.places, str(path), unit, {name: factor for name, (_, factor) in mapped.items()}, file.notes)


def mapping(given: Iterable[str], there: Sequence[str]) -> dict[str, tuple[str, float]]:
    """Our name -> column and factor. Raises FitError for a mapping that does not parse, and for a column that is not there."""
    known, mapped = (*NUMBERS, *WORDS), {}
    for text in given:
        name, equals, source = (part.strip() for part in text.partition("="))
        source, times, power = (part.strip() for part in source.partition("*")) if source not in there else (source, "", "")
        factor = number(power) if times else 1.0
        if not equals or name not in known or factor is None or not (math.isfinite(factor) and factor > 0):
            raise FitError(f"--column {text}", f"NAME=COLUMN or NAME=COLUMN*FACTOR; names are {', '.join(known)}",
                           "as --column loss=val_loss, or --column D=tokens_in_billions*1e9")  # fmt: skip
        if source not in there:
            near = difflib.get_close_matches(source, there, 1)
            raise FitError(f"--column {text}: no column {source!r}", f"the table has {', '.join(there)}",
                           f"--column {name}={near[0] if near else 'COLUMN'}")  # fmt: skip
        if times and name in WORDS:
            raise FitError(f"--column {text}: {name} is no quantity", "a factor is for numbers", f"--column {name}={source}")
        mapped[name] = (source, factor)
    for name in known:
        if name not in mapped and name in there:
            mapped[name] = (name, 1.0)
    missing = [name for name in NUMBERS if name not in mapped]
    if missing:
        raise FitError(
            f"no column {' and no column '.join(missing)}; the table has {', '.join(there) or 'none'}",
            "a row is a run: N_once and N_rec (unique parameters outside embedding and head, that run once and r times), r, D (training "
            "tokens), loss (of validation, nats a token)",
            "say which column it is: " + " ".join(f"--column {name}=COLUMN" for name in missing),
        )
    return mapped


def made(found: Mapping[str, Sequence[Any]], places: Sequence[str], source: str, unit: str = "nats",
         factors: Mapping[str, float] | None = None, notes: Sequence[str] = ()) -> RunTable:  # fmt: skip
    """A table from columns by our names; those of words may be left out.

    factors: by which numbers are multiplied, before they are checked.  notes: of rows that were left out before.
    Raises FitError for an unknown unit, and where no row can be used.
    """
    if unit not in UNITS:
        raise FitError(f"--unit {unit}", "losses are in nats or bits, a token", "--unit nats, or --unit bits")
    scale = {**dict.fromkeys(NUMBERS, 1.0), **(factors or {})}
    scale["loss"] *= UNITS[unit]
    words = {name: [_word(value) for value in found[name]] if name in found else [""] * len(places) for name in WORDS}
    numbers, kept, notes, twice = {name: [] for name in NUMBERS}, [], [*notes], {}
    for at, place in enumerate(places):
        given = {name: number(found[name][at]) for name in NUMBERS}
        row = {name: None if value is None else value * scale[name] for name, value in given.items()}
        wrong = next((name for name in NUMBERS if not _possible(name, row[name])), None)
        if wrong is None:
            applied = row["N_once"] + row["r"] * row["N_rec"]
            if applied == 0:
                wrong = "N_once"
            elif not math.isfinite(6 * applied * row["D"]):  # FLOPs of the run
                wrong = max(("N_once", "N_rec", "r", "D"), key=row.__getitem__)
        called = f"{place} ({words['arm'][at]})" if words["arm"][at] else place
        if wrong is not None:
            times = f" times {scale[wrong]:g}" if scale[wrong] != 1 and _possible(wrong, given[wrong]) else ""
            notes.append(f"{called} is left out: {wrong} is {_word(found[wrong][at]) or 'empty'}{times}")
            continue
        key = (*row.values(), *(words[name][at] for name in ("arm", "seed", "treatment")))
        if key in twice:
            notes.append(f"{called} is {twice[key]} again: counted once")
            continue
        twice[key] = called
        kept.append(at)
        for name in NUMBERS:
            numbers[name].append(row[name])
    if not kept:
        raise FitError(f"{source}: no row can be used" + (f" ({notes[0]})" if notes else ""),
                       "a row has a cell under every name; D, loss and N_once + N_rec are above 0, r is 1 or more, and all are finite",
                       "correct the table (no separators of thousands), or map its columns")  # fmt: skip
    arrays = {name: np.array(values) for name, values in numbers.items()}
    table = RunTable(**arrays, **{name: tuple(words[name][at] for at in kept) for name in WORDS},
                     places=tuple(places[at] for at in kept), source=source, unit=unit, notes=tuple(notes))  # fmt: skip
    return replace(table, warnings=tuple(suspicions(table)))


def _possible(name: str, value: float | None) -> bool:
    if value is None or not math.isfinite(value):
        return False
    return value > 0 if name in ABOVE_0 else value >= (1 if name == "r" else 0)


def suspicions(table: RunTable) -> list[str]:
    """What looks like another unit: it is said, and nothing is changed."""
    said = []
    unique, tokens = np.median(table.unique), np.median(table.D)
    if unique < FEW_PARAMETERS:
        said.append(_in_powers("N_once + N_rec", unique, "millions", "N_once", "N_rec"))
        unique *= float(POWERS["millions"])
    if tokens < FEW_TOKENS:
        said.append(_in_powers("D", tokens, "millions" if tokens * 1e6 >= TOKENS_A_PARAMETER * unique else "billions", "D"))
    ratio = float(np.median(table.loss / usual(table.unique, table.D)))
    consequence = "phi, alpha and beta are the same in either; E, A and B are not"
    large = np.median(table.unique) > 1e7 and np.median(table.D) > 1e8
    if table.unit == "nats" and ((large and ratio > 1.38) or np.median(table.loss) > 12):
        said.append(f"losses are {np.median(table.loss):.3g} in the middle, {ratio:.2f} times what such models usually have in nats: "
                    f"if they are in bits, say --unit bits ({consequence})")  # fmt: skip
    elif (large and ratio < 0.75) or np.median(table.loss) < 0.3:
        said.append(f"losses are {np.median(table.loss):.3g} nats in the middle, {ratio:.2f} times what models of this size usually have: "
                    f"are they bits a byte, or was --unit bits said of nats? ({consequence})")  # fmt: skip
    return said


def _in_powers(what: str, value: float, word: str, *names: str) -> str:
    mapped = " ".join(f"--column {name}={name}*{POWERS[word]}" for name in names)
    return f"{what} is {value:.4g} in the middle: if it is in {word}, say so: {mapped}"


def usual(unique: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Nats a token of about such a model after so many tokens: the published joint fit, with A and B near those of its separate fits."""
    return 1.57 + 27.0 * unique**-0.199 + 900.0 * tokens**-0.369


def _word(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)
