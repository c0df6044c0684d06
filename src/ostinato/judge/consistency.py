"""Do the numbers of a published table agree with each other, beyond rounding? Each is only known to half a unit of its last printed digit.

Four identities hold of every table of one text, whatever was trained:
- nats a token over bits a byte is one number, ln 2 times the bytes a token;
- a printed gain is the difference of the two printed losses;
- the gain over one arm less that arm's gain over another is the gain over the other;
- a perplexity is the exponential of its nats.
Where numbers disagree, the value that most of the others agree on is found (the point in the most intervals), and told.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ostinato.judge.published import Printed, What
from ostinato.judge.tables import TableMeasurements

MOST_TOLD = 5
_ROUNDING = 1e-9
Ends = tuple[float, float]


@dataclass(frozen=True)
class _Difference:
    """loss of base - loss of arm - gain, which is 0."""

    base: str
    arm: str
    gain: Printed
    loss: Printed

    @property
    def base_needed(self) -> Ends:
        middle, half = self.loss.value + self.gain.value, self.loss.half + self.gain.half
        return middle - half, middle + half


def disagreements(measurements: TableMeasurements) -> list[str]:
    """What does not agree, in sentences that name the numbers."""
    kinds = (_ratios(measurements), _differences(measurements), _over_others(measurements), _perplexities(measurements))
    return [note for notes in kinds for note in _few(list(notes))]


def agreed(intervals: Sequence[Ends]) -> tuple[Ends, int]:
    """The part of the line that is in the most of these intervals, the leftmost of equals, and in how many."""
    edges = sorted([(low, 0, 1) for low, _ in intervals] + [(high, 1, -1) for _, high in intervals])
    best, count, held, low = 0, 0, (0.0, 0.0), 0.0
    for place, is_end, step in edges:
        if is_end and count > best:
            best, held = count, (low, place)
        count += step
        low = low if is_end else place
    return held, best


def _ratios(measurements: TableMeasurements) -> Iterator[str]:
    for part in dict.fromkeys(each.get("part") for each in measurements.table.columns):
        if part is None:
            continue
        nats, bits = (What("loss").but(unit=unit, part=part) for unit in ("nats", "bits"))
        both = [(line, line.cells[nats], line.cells[bits]) for line in measurements.table.lines
                if nats in line.cells and bits in line.cells and line.cells[bits].value > line.cells[bits].half]  # fmt: skip
        ends = [((above.value - above.half) / (below.value + below.half), (above.value + above.half) / (below.value - below.half))
                for _, above, below in both]  # fmt: skip
        if len(both) < 3:
            continue
        held, count = agreed(ends)
        middle = sum(held) / 2
        if 2 * count <= len(both):
            yield f"nats a token over bits a byte is one number on one text, and no more than {count} of {len(both)} rows agree on one"
            continue
        for (line, above, below), (low, high) in zip(both, ends, strict=True):
            if high < held[0] * (1 - _ROUNDING) or low > held[1] * (1 + _ROUNDING):
                yield (f"{line.arm}: {above.text} nats and {below.text} bits do not fit together: nats over bits is {middle:.4f} in "
                       f"{count} of {len(both)} rows and {above.value / below.value:.4f} here; {below.text} bits need "
                       f"{_like(middle * below.value, above)} nats")  # fmt: skip


def _differences(measurements: TableMeasurements) -> Iterator[str]:
    found: dict[tuple[str, What, int | None], list[_Difference]] = {}
    for gains, arm, base, seed, gain in _gains(measurements):
        loss = gains.but("loss")
        mine, theirs = measurements.printed(arm, loss), measurements.printed(base, loss)
        at = seed if seed in theirs else next(iter(theirs), None) if len(theirs) == 1 else None
        if at in theirs and seed in mine:
            found.setdefault((base, loss, at), []).append(_Difference(base, arm, gain, mine[seed]))
    for (base, loss, at), differences in found.items():
        theirs = measurements.printed(base, loss)[at]
        wrong = [each for each in differences if not _meet(each.base_needed, theirs.ends)]
        held, count = agreed([each.base_needed for each in differences])
        if len(wrong) > 1 and 2 * count > len(differences) and not _meet(held, theirs.ends):
            yield (f"{loss} of {base} is printed as {theirs.text}, and the gains printed over it need {_like(sum(held) / 2, theirs)}, from "
                   f"the losses of {', '.join(each.arm for each in wrong)}")  # fmt: skip
            continue
        for each in wrong:
            yield (f"{loss.but('gain')} of {each.arm} over {base} is printed as {each.gain.text}, and the losses {theirs.text} and "
                   f"{each.loss.text} differ by {_like(theirs.value - each.loss.value, each.gain)}")  # fmt: skip


def _over_others(measurements: TableMeasurements) -> Iterator[str]:
    printed: dict[tuple[What, str, int | None], dict[str, Printed]] = {}
    for gains, arm, base, seed, gain in _gains(measurements):
        printed.setdefault((gains, arm, seed), {})[base] = gain
    for (gains, arm, seed), over in printed.items():
        for first, mine in over.items():
            for second, other in over.items():
                between = [each[first] for (kind, name, at), each in printed.items()
                           if (kind, name) == (gains, second) and first in each and (at == seed or arm != second)]  # fmt: skip
                if second == first or arm == second or len(between) != 1:
                    continue
                left, slack = mine.value - between[0].value - other.value, mine.half + between[0].half + other.half
                if abs(left) > slack * (1 + 1e-6):
                    yield (f"{gains} of {arm}: {mine.text} over {first} and {other.text} over {second} do not fit the {between[0].text} "
                           f"of {second} over {first}")  # fmt: skip


def _perplexities(measurements: TableMeasurements) -> Iterator[str]:
    for line in measurements.table.lines:
        for kind, ppl in line.cells.items():
            nats = line.cells.get(kind.but("loss", unit="nats")) if kind.name == "ppl" else None
            if nats and not _meet(tuple(math.exp(min(end, 700)) for end in nats.ends), ppl.ends):
                yield f"{line.arm}: a perplexity of {ppl.text} is not exp of {nats.text} nats, {_like(math.exp(min(nats.value, 700)), ppl)}"


def _gains(measurements: TableMeasurements) -> Iterator[tuple[What, str, str, int | None, Printed]]:
    """(the gain without `over`, arm, over which, seed, number) of every one that is printed."""
    for line in measurements.table.lines:
        for kind, number in line.cells.items():
            base = kind.get("over") or measurements.base_of(line.arm)
            if kind.name == "gain" and base and base != line.arm:
                yield kind.but(over=None), line.arm, base, line.seed, number


def _meet(one: Iterable[float], other: Iterable[float]) -> bool:
    """Whether two intervals share a point, within the rounding of floats."""
    (low, high), (left, right) = one, other
    slack = _ROUNDING * max(abs(low), abs(high), abs(left), abs(right))
    return low <= right + slack and left <= high + slack


def _like(value: float, other: Printed) -> str:
    """With as many decimals as `other` is printed with."""
    digits = max(0, -math.floor(math.log10(2 * other.half) + 1e-6)) if other.half else 6
    return f"{value:.{digits}f}".replace("-", "−")


def _few(notes: list[str]) -> list[str]:
    return notes if len(notes) <= MOST_TOLD else [*notes[:MOST_TOLD], f"and {len(notes) - MOST_TOLD} more of this kind"]


