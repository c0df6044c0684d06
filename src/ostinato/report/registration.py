"""What was registered, in lines for a terminal: `ostinato register`, its --check, and the page's list of registrations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ostinato.report import numbers
from ostinato.report.verdict_words import moment
from ostinato.store.registrations import Change, Registration, Result
from ostinato.store.seals import Checked

_SHOWN = 12


def registration_lines(one: Registration, source: str, notes: Sequence[str] = ()) -> Iterator[str]:
    """What was sealed, after which results, what changed, and what to do next. source: the study as the command line names it."""
    if one.found:
        yield f"registered already, and nothing has changed since: registration {one.number} of {moment(one.at)}"
    else:
        yield f"registration {one.number} of {one.study.name}, sealed {moment(one.at)}"
    yield f"  fingerprint  {one.fingerprint}"
    yield f"  follows      {one.previous or 'nothing: it is the first'}"
    yield f"  commit       {commit_words(one)}"
    yield f"  predictions  {numbers.listed([prediction.name for prediction in one.study.predictions], 20)}"
    yield f"  folder       {one.path}"
    if one.changes:
        yield f"changed since registration {one.since}, {'after' if one.results else 'before any'} results:"
        yield from (f"  {line}" for line in change_lines(one.changes))
    if one.results:
        yield f"! these results existed already when it was sealed, and judging says so ({several_runs(one.results)}):"
        yield from (f"  {line}" for line in result_lines(one.results))
    elif not one.found:
        yield "No result of its runs existed yet."
    if one.held_out_shown:
        yield f"! the held-out part was first looked at {moment(one.held_out_shown)}, before this registration"
    yield from (f"! {note}" for note in notes)
    yield "next: commit that folder, or keep the fingerprint where others see its date; then"
    yield f"  ostinato run {source}"


def commit_words(one: Registration) -> str:
    """The commit and whether the study file is as it has it, or why no commit is known."""
    if one.commit is None:
        return f"none: {one.git.get('why') or 'not known'}"
    return f"{one.commit[:12]} ({one.git.get('branch')}), the study file {one.git.get('file')}"


def change_lines(changes: Sequence[Change]) -> list[str]:
    """One line a change, predictions first; of very many the last are counted."""
    ordered = sorted(changes, key=lambda change: change.prediction is None)
    lines = [_cut(str(change)) for change in ordered[:_SHOWN]]
    return lines + ([f"and {len(ordered) - _SHOWN} more"] if len(ordered) > _SHOWN else [])


def result_lines(results: Sequence[Result]) -> list[str]:
    """One line an arm: seeds, parts and how far they were measured."""
    lines = []
    for arm in dict.fromkeys(result.arm for result in results):
        own = [result for result in results if result.arm == arm]
        seeds = numbers.listed([str(seed) for seed in dict.fromkeys(result.seed for result in own)])
        parts = numbers.listed(list(dict.fromkeys({"held_out": "held-out"}.get(result.part, result.part) for result in own)))
        lines.append(f"{arm}: seed {seeds}, {parts}, up to {numbers.exact(max(result.tokens for result in own))} tokens")
    return lines[:_SHOWN] + ([f"and {len(lines) - _SHOWN} more arms"] if len(lines) > _SHOWN else [])


def several_runs(results: Sequence[Result]) -> str:
    """How many runs they are of."""
    return numbers.several(len({(result.arm, result.seed) for result in results}), "run")


def check_lines(checked: Checked) -> Iterator[str]:
    """Every registration, every fault and note, and what follows."""
    for one in checked.registrations:
        after = f"after results of {several_runs(one.results)}" if one.results else "before any result"
        yield f"{one.study.name} {one.number:04d}  {moment(one.at)}  {after}, {numbers.several(len(one.changes), 'change')}"
        yield f"  {one.fingerprint}"
    yield from (f"✕ {fault}" for fault in checked.faults)
    yield from (f"! {note}" for note in checked.notes)
    if checked.faults:
        yield f"{numbers.several(len(checked.faults), 'fault')}: this is not what was sealed"
    else:
        yield (f"{numbers.several(len(checked.registrations), 'registration')} as sealed; compare the newest fingerprint with the one "
               "that was made public")  # fmt: skip


def _cut(text: str, most: int = 200) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"
