"""The measures of a published table, by the names that predictions use: the twin of `judge.measurements` for results trained elsewhere.

A gain over an arm is, in this order, the one printed over that arm, the difference of two printed losses, or the difference of two gains
printed over the same third arm: printed differences come from unrounded numbers. The nats of an arm that has only a perplexity are its
logarithm.

Noise that a paper states is of its runs. Two runs of one configuration that differ by D: D = e1 - e2 has the variance 2 s^2 of the
difference of any two single runs, so |D| estimates the standard error of such a difference, with 1 degree of freedom, and |D| / sqrt(2) the
deviation s of one run. A stated deviation of n runs has n - 1. It enters every loss by its run, so that what two gains share cancels, and
runs are taken as independent, also those of one seed. It says how strong a number is and refuses none. Where both are stated, the larger
of seed and implementation noise is taken; noise of the implementation alone is not that of seeds.
"""

from __future__ import annotations

import difflib
import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ostinato.analysis.words import BITS, NATS
from ostinato.claims import MEASURES, Measure
from ostinato.errors import OstinatoError, StudyError
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.published import Line, Printed, PublishedTable, What, column, what
from ostinato.judge.value import Residuals, Value

_UNITS = {"params": "parameters", "flops": "FLOPs", "flops_per_token": "FLOPs/token", "seconds": "seconds", "peak_bytes": "bytes",
          "tokens": "tokens", "first_pass_ends": "tokens", "crossing": "tokens", "ppl": "perplexity", "lens": NATS, "depth": NATS,
          "pairs": "of pairs", "won": "of windows"}  # fmt: skip
_T = TypeVar("_T")
EXACT = ("params", "flops", "flops_per_token", "seconds", "peak_bytes", "tokens", "first_pass_ends")
"""What is counted, and taken without noise."""


@dataclass(frozen=True)
class StatedNoise:
    """What a paper says of its noise.  seed, implementation: {measure: difference of two runs}; deviation: {measure: of `seeds` runs}."""

    seed: Mapping[What, float]
    implementation: Mapping[What, float]
    deviation: Mapping[What, float]
    seeds: int = 2

    def of(self, asked: What) -> tuple[float, int] | None:
        """(standard deviation of one run, degrees of freedom); None where nothing is stated for the measure."""
        if asked in self.deviation:
            return self.deviation[asked], self.seeds - 1
        if asked not in self.seed:
            return None
        return max(abs(self.seed[asked]), abs(self.implementation.get(asked, 0.0))) / math.sqrt(2), 1


NONE_STATED = StatedNoise({}, {}, {})


def stated_noise(seed: Mapping[str, float], implementation: Mapping[str, float], deviation: Mapping[str, float], seeds: int) -> StatedNoise:
    """By the headers of a table: `loss(unit=bits)`, `loss(class=new)`; a gain has the noise of its losses. Raises StudyError."""
    return StatedNoise(_noises(seed), _noises(implementation), _noises(deviation), seeds)


def _noises(given: Mapping[str, float]) -> dict[What, float]:
    found = {}
    for header, value in given.items():
        try:
            known, _ = column(header)
        except OstinatoError as error:
            raise StudyError(f"noise {header!r}: {error.what}", error.rule, error.fix) from None
        found[_kind(known)] = value
    return found


def _kind(asked: What) -> What:
    """What the noise of a measure is stated by: of a gain, of its loss; the part of the text is the same."""
    return asked.but("loss" if asked.name == "gain" else asked.name, over=None, part=None, tokens=None)


class TableMeasurements:
    """reference: the arm that the others are compared with, unless a row says `against`; it need not have a row of its own."""

    def __init__(self, table: PublishedTable, reference: str = "", noise: StatedNoise = NONE_STATED):
        self.table, self.reference, self.noise = table, reference, noise
        self.arms = tuple(table.arms)

    def value(self, term: Measure, seeds: frozenset[int] | None = None) -> Value:
        """seeds: of the rows of these alone; None: of all. Raises NotEstimable: no such arm, or no such number of it."""
        asked, options = what(term), dict(term.options)
        seeds = frozenset({int(options["seed"])}) if "seed" in options else seeds
        if term.name == "gain":
            return self._gain(term.arm, self._base(term.arm, asked), asked.but(over=None), seeds)
        if term.name in ("won", "crossing"):
            return self._compared(term.arm, asked, seeds)
        if term.name == "loss":
            return self._loss(term.arm, asked, seeds)
        if term.name == "ppl":
            return self._ppl(term.arm, asked, seeds)
        return self._direct(term.arm, asked, seeds)

    def base_of(self, arm: str) -> str:
        """The arm that this one is compared with where nothing says `over`; "" where there is none."""
        lines = self.table.arms.get(arm, ())
        base = next((line.against for line in lines if line.against), self.reference)
        return "" if base == arm else base

    def gain_printed(self, arm: str, base: str, asked: What) -> dict[int | None, Printed]:
        """{seed: the gain as printed} over `base`.  asked: the gain without `over`."""
        columns = [asked.but(over=base), *([asked] if self.base_of(arm) == base else [])]
        return next((found for each in columns if (found := self.printed(arm, each))), {})

    def printed(self, arm: str, asked: What) -> dict[int | None, Printed]:
        """{seed: number} of an arm's rows that have it."""
        return {line.seed: line.cells[asked] for line in self.table.arms.get(arm, ()) if asked in line.cells}

    # --- a gain, a loss

    def _gain(self, arm: str, base: str, asked: What, seeds: frozenset[int] | None) -> Value:
        some = None
        for one, other, sign in ((arm, base, 1.0), (base, arm, -1.0)):
            if numbers := _of_seeds(self.gain_printed(one, other, asked), seeds):
                some = self._value(numbers, [(one, -1.0), (other, 1.0)], asked, _unit(asked)) * sign
                if len(numbers) == len(_of_seeds({line.seed: line for line in self.table.arms.get(one, ())}, seeds)):
                    return some
        try:
            of_base = None if len(self._lines(base)) == 1 else seeds
            theirs, mine = self._loss(base, asked.but("loss"), of_base), self._loss(arm, asked.but("loss"), seeds)
            if theirs.seeds.keys() != mine.seeds.keys() and (both := frozenset(theirs.seeds.keys() & mine.seeds.keys())):
                theirs, mine = (self._loss(one, asked.but("loss"), both) for one in (base, arm))  # paired by seed
            return theirs - mine
        except NotEstimable as error:
            if some is not None:
                return some  # of some of its seeds
            for third in self._thirds(asked):
                sides = [_of_seeds(self.gain_printed(one, third, asked), seeds) for one in (arm, base)]
                if all(sides):
                    mine, theirs = (self._value(numbers, [(one, -1.0), (third, 1.0)], asked, _unit(asked))
                                    for one, numbers in zip((arm, base), sides, strict=True))  # fmt: skip
                    return mine - theirs
            raise NotEstimable(f"the table gives no {asked} of {arm} over {base}, nor what it follows from: {error.reason}",
                               self._says()) from None  # fmt: skip

    def _thirds(self, asked: What) -> Iterable[str]:
        """Arms that gains of this kind are printed over."""
        named = [each.get("over") for each in self.table.columns if each.but(over=None) == asked]
        return dict.fromkeys(base for base in (*(self.base_of(arm) for arm in self.arms), *named) if base)

    def _base(self, arm: str, asked: What) -> str:
        self._lines(arm)
        base = asked.get("over") or self.base_of(arm)
        if not base:
            why = f"{arm} is the reference" if arm == self.reference else "the replay names no reference"
            raise NotEstimable(f"{arm} is compared with no arm: {why}", "", f"write gain({arm}, over=ARM)")
        if base != self.reference:
            self._lines(base)
        return base

    def _compared(self, arm: str, asked: What, seeds: frozenset[int] | None) -> Value:
        base = self._base(arm, asked)
        columns = [asked, asked.but(over=base)]
        columns += [asked.but(over=None)] if self.base_of(arm) == base else []
        found = next((each for each in columns if _of_seeds(self.printed(arm, each), seeds)), asked)
        return self._direct(arm, found, seeds)

    def _loss(self, arm: str, asked: What, seeds: frozenset[int] | None) -> Value:
        numbers = _of_seeds(self.printed(arm, asked), seeds)
        perplexity = asked.but("ppl", unit=None)
        if not numbers and asked.get("unit") == "nats" and _of_seeds(self.printed(arm, perplexity), seeds):
            found = self._direct(arm, perplexity, seeds)
            if found.point <= 0:
                raise NotEstimable(f"a perplexity of {found.point:.4g}: it is above 0")
            return found.through(math.log, 1 / found.point, NATS)
        return self._direct(arm, asked, seeds)

    def _ppl(self, arm: str, asked: What, seeds: frozenset[int] | None) -> Value:
        nats = asked.but("loss", unit="nats")
        if _of_seeds(self.printed(arm, asked), seeds) or not _of_seeds(self.printed(arm, nats), seeds):
            return self._direct(arm, asked, seeds)
        found = self._direct(arm, nats, seeds)
        if found.point > 700:
            raise NotEstimable(f"exp of {found.point:.4g} nats is beyond all bounds")
        return found.through(math.exp, math.exp(found.point), _UNITS["ppl"])

    def _direct(self, arm: str, asked: What, seeds: frozenset[int] | None) -> Value:
        """As it is printed."""
        lines = self._lines(arm)
        numbers = _of_seeds(self.printed(arm, asked), seeds)
        if numbers:
            return self._value(numbers, [(arm, 1.0)], asked, _unit(asked))
        if seeds and not seeds & {line.seed for line in lines}:
            raise NotEstimable(f"the table has no seed {', '.join(map(str, sorted(seeds)))} of {arm}")
        raise NotEstimable(f"the table gives no {asked} of {arm}", self._says())

    def _lines(self, arm: str) -> list[Line]:
        if arm not in self.table.arms:
            near = difflib.get_close_matches(arm, self.arms, n=1)
            said = f"; the nearest is {near[0]}" if near else ""
            raise NotEstimable(f"the table has no arm {arm!r}{said}", "its arms are " + ", ".join(self.arms))
        return self.table.arms[arm]

    def _says(self) -> str:
        return "its columns are " + ", ".join(map(str, self.table.columns))

    # --- noise

    def _value(self, numbers: Mapping[int | None, Printed], signs: list[tuple[str, float]], asked: What, unit: str) -> Value:
        """signs: the arms whose runs the number rests on, and the sign of each."""
        values = {seed: number.value for seed, number in numbers.items()}
        mean = math.fsum(values.values()) / len(values)
        if asked.name in EXACT:
            return Value(mean, unit=unit)
        stated = self.noise.of(_kind(asked))
        found = Value(mean, unit=unit)
        if len(values) > 1:
            found = replace(found, seeds={int(seed or 0): value - mean for seed, value in values.items()})
        if stated is None:
            one = next((arm for arm, _ in signs if len(self.table.arms.get(arm, ())) < 2), None)
            said = ", only that of the implementation" if _kind(asked) in self.noise.implementation else ""
            reason = f"one seed, and no noise of seeds is stated for {_kind(asked)}{said}"
            return replace(found, unknown=reason) if one is not None or len(values) < 2 else found
        deviation, freedom = stated
        runs = {}
        for arm, sign in signs:
            known = [line.seed for line in self.table.arms.get(arm, ())] or [None]
            seeds = [seed for seed in known if seed in values] or known
            runs.update({_run(arm, seed, asked): sign * deviation / len(seeds) for seed in seeds})
        keys = np.array(sorted(runs), dtype=np.uint64)
        return replace(found, noise=Residuals(keys, np.array([runs[int(key)] for key in keys])), noise_freedom=freedom)


def _run(arm: str, seed: int | None, asked: What) -> int:
    """The key of a run's error in one measure; errors in other measures of the same run are taken as independent."""
    text = f"{arm}\0{seed}\0{_kind(asked)}\0{asked.get('part')}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _of_seeds(numbers: Mapping[int | None, _T], seeds: frozenset[int] | None) -> dict[int | None, _T]:
    return {each: number for each, number in numbers.items() if seeds is None or each in seeds}


def _unit(asked: What) -> str:
    unit = asked.get("unit")
    if unit is not None:
        return {"nats": NATS, "bits": BITS}[unit]
    return _UNITS.get(asked.name, MEASURES[asked.name].unit)
