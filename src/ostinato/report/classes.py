"""Where a gain sits, for the page and the terminal: what is said of it, a table of every family of classes, and which figures there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ostinato.analysis import ArmResult
from ostinato.analysis.classes import ALL, ArmClasses, ClassGain, gains_by_class
from ostinato.analysis.members import FAMILIES
from ostinato.report import numbers
from ostinato.report.class_figures import DRAWN, gain_bars, share_bars
from ostinato.report.panels import arm_looks, ranked
from ostinato.report.section import Figure, Section
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.store import Store
from ostinato.study.records import Study

MOST = 3  # sentences
SHOWN = ("R", "k")  # families whose tables are not folded
SAID = {"new": "tokens new to the document", "tok-repeat": "repeated tokens", "bigram-repeat": "repeated pairs"}


def section(study: Study, store: Store, results: Sequence[ArmResult]) -> Section | None:
    """Gains by class of all arms that have them; None when none has."""
    best, *others = [one.name for one in ranked(results)] or [None]
    asked = [*FAMILIES, *(name for name in DRAWN if name != ALL)]
    split = gains_by_class(study, store, asked, ratio_to=best if others else None, results=results)
    found = [one for one in split if one.whole and one.whole.gain is not None]
    if not found:
        return None
    looks = arm_looks(study, results)
    drawn = [one for one in found if looks[one.arm].colour is not None]
    figures = (
        Figure(
            "Gain by class of targets",
            "Nats a token within the class; lines are 95% intervals over documents.",
            gain_bars("f-class-gains", drawn, looks),
        ),
        Figure(
            "What each class adds to the gain",
            "Each bar begins where the one before ends, and the last ends at the gain over all targets. The number is the share of that.",
            share_bars("f-class-shares", drawn, looks),
        ),
    )
    tables = {family: class_table(_only(found, family), f"classes-{family.replace(' ', '-')}", about.about)
              for family, about in FAMILIES.items()}  # fmt: skip
    shown, more = (tuple(table for family, table in tables.items() if table and (family in SHOWN) is here) for here in (True, False))
    return Section("classes", "Where the gain sits", _lead(found), figures, shown, _notes(split), more, "By view, frequency and position")


def _only(found: Sequence[ArmClasses], family: str) -> list[ArmClasses]:
    """With the classes that share out all targets by one family."""
    names = {one.name for one in FAMILIES[family].classes}
    return [replace(arm, classes=tuple(one for one in arm.classes if one.name in names)) for arm in found]


def _notes(split: Sequence[ArmClasses]) -> tuple[str, ...]:
    ratio_to = next((one.ratio_to for one in split if one.ratio_to), None)
    notes = [f"In brackets: the gain, divided by that of {ratio_to} in the same class."] if ratio_to else []
    notes.append(
        "Classes follow from the text alone. k is the length of the longest match in the document that ends with the target, whether the "
        "window shows it or not. Intervals are over documents, on losses averaged over seeds."
    )
    unmeasured = [one.arm for one in split if one.problem == f"{one.arm} is not measured yet"]
    others = [f"{one.arm} is not split: {one.problem}." for one in split if one.problem and one.arm not in unmeasured]
    return (*notes, *others, *([f"Not measured yet: {', '.join(unmeasured)}."] if unmeasured else []))


def _lead(found: Sequence[ArmClasses]) -> str:
    """One sentence an arm, the largest differences first."""
    largest = sorted(found, key=lambda one: -abs(one.whole.gain))
    said = [_sentence(one) for one in largest[:MOST]]
    if len(largest) > MOST:
        said.append(f"{numbers.several(len(largest) - MOST, 'more arm')} in the tables.")
    return " ".join(said)


def _sentence(one: ArmClasses) -> str:
    whole = one.whole
    if whole.about_zero:
        return f"{one.arm} gains about nothing over {one.against} in all, so shares say nothing."
    what = "gains over" if whole.gain > 0 else "loses to"
    parts = [f"{numbers.percent(part.share_of_gain)} is on {SAID[part.name]} ({numbers.percent(part.share_of_targets)} of the targets)"
             for part in one.classes if part.name in SAID and part.targets]  # fmt: skip
    return f"Of what {one.arm} {what} {one.against}, {numbers.listed(parts)}."


def class_table(found: Sequence[ArmClasses], name: str = "classes", about: str = "") -> Table | None:
    """A row a class that has targets; of each arm its gain there, with the ratio in brackets, and its share. The last row is all targets.

    found: of one call of `gains_by_class`; arms without classes are left out. about: what the classes are of. None when fewer than two
    classes have targets: a class that has all of them splits nothing.
    """
    found = [one for one in found if one.whole]
    rows = [(parts, Row((
        Cell(parts[0].name, parts[0].name),
        Cell(numbers.percent(parts[0].share_of_targets), parts[0].share_of_targets, f"{parts[0].targets:,} targets"),
        *(cell for part, arm in zip(parts, found, strict=True) for cell in (_cell(part), _share(part, arm.whole))),
    ), "reference" if parts[0].name == ALL else "")) for parts in zip(*(one.all for one in found), strict=True)]  # fmt: skip
    rows = [row for parts, row in rows if any(part.targets for part in parts)]
    if len(rows) <= 2:
        return None
    columns = [Column("class", about, number=False), Column("share of targets", "that are in the class")]
    for one in found:
        ratio = f" [divided by {one.ratio_to}'s]" if one.ratio_to else ""
        columns += [Column(one.arm, f"gain over {one.against} in nats a token{ratio}"),
                    Column("of its gain", f"the share of the whole gain of {one.arm}", spare=1)]  # fmt: skip
    return Table(name, "Gain by class" + (f": {about}" if about else ""), tuple(columns), tuple(rows))


def _share(one: ClassGain, whole: ClassGain) -> Cell:
    if whole.about_zero:
        return Cell(numbers.NONE, None, "a share of a gain of about zero says nothing", "muted")
    return Cell(numbers.percent(one.share_of_gain), one.share_of_gain)


def _cell(one: ClassGain) -> Cell:
    if one.gain is None:
        return Cell(numbers.NONE, None, "no target")
    ratio = f" [{numbers.fixed(one.ratio, 2)}]" if one.ratio is not None else ""
    interval = one.interval
    tone = "muted" if interval is None or one.about_zero else "better" if one.gain > 0 else "worse"
    span = numbers.interval(interval.low, interval.high) if interval else "no interval: one document"
    title = f"{span}; adds {numbers.signed(one.contribution, 5)} nats a token to the whole"
    if one.contribution_bits is not None:
        title += f", {numbers.signed(one.contribution_bits, 5)} bits a byte"
    if len(one.seeds) > 1:
        title += "; by seed " + ", ".join(f"{seed}: {numbers.signed(gain)}" for seed, gain in one.seeds.items())
    return Cell(f"{numbers.signed(one.gain)}{ratio}", one.gain, title, tone)
