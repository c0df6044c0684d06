"""The verdicts as a page leads with them: one line a prediction, then numbers, contingent arms and runs, nothing dropped.

The page of a study and that of a replay share it (templates/verdicts.html.j2). It is computed from the store as it is now; of the held-out
part nothing is read before `ostinato judge` was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ostinato.analysis import ArmResult
from ostinato.claims import measures, outcomes, parse_condition
from ostinato.errors import OstinatoError
from ostinato.judge.judge import standing
from ostinato.judge.verdicts import NOT_ESTIMABLE, Judgement, Verdict
from ostinato.report import verdict_words as words
from ostinato.report.judgement import held_out_table, quantity_table
from ostinato.report.page import table_html
from ostinato.report.registration import change_lines, commit_words, several_runs
from ostinato.report.verdict_lines import NOT_YET, Line, line
from ostinato.store import Store
from ostinato.store.registrations import Registration, of_size
from ostinato.study.records import Prediction, Study

SEMANTICS = (
    ("What is judged", "Predictions as the newest registration has them (`ostinato register` seals them). One that was not sealed, or "
     "reads otherwise than it was, is exploratory: it may have been written after its result was seen."),
    ("In which order", "Killed, if that condition holds; not estimable, if it cannot be told; supported, if that condition holds; not "
     "estimable, if that cannot be told; else between. Conditions are read on the measured numbers as they are."),
    ("Clear, or within noise", "The margin is how far a comparison is from its border, positive where it holds. It is clear when its 95% "
     "intervals over documents and over seeds both leave out zero; with one seed nothing is clear."),
    ("p", "How often a margin as large would come by noise alone, by documents or by seeds, whichever is more. Holm's p is raised for the "
     "number of predictions, so that it can be read over all of them."),
    ("What is left out", "Nothing. Failed, missing and partial runs are counted, what cannot be told says why, and the held-out part stays "
     "hidden until `ostinato judge` is given."),
)  # fmt: skip


@dataclass(frozen=True)
class Block:
    """broken: what is not as it was sealed, which leads.  sealed: lines of what was registered; loose: of what was not.

    facts: sentences under them; cautions: what to be careful about.

    tables: quantities, and held-out gains where they may be shown.  registrations: (which, what of it).  quiet: where nothing is predicted.
    """

    tally: str = ""
    broken: tuple[str, ...] = ()
    sealed: tuple[Line, ...] = ()
    loose: tuple[Line, ...] = ()
    facts: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    tables: tuple[Markup, ...] = ()
    registrations: tuple[tuple[str, str], ...] = ()
    quiet: str = ""
    semantics: tuple[tuple[str, str], ...] = SEMANTICS


def study_block(study: Study, store: Store, results: Sequence[ArmResult], source: str) -> tuple[Block, Judgement | None]:
    """What leads the page of a study, and the judgement that it is of, None where that cannot be read.

    Computed from the store as it is now; of the held-out part nothing is read before `ostinato judge` was given.
    source: the study as the command line names it.
    """
    folder = store.study_folder(study.name)
    judged = folder.judged(study)
    try:
        judgement, registrations = standing(study, store, results, held_out=judged is not None), of_size(folder.registrations(), study)
    except OstinatoError as error:
        return Block(cautions=(f"The verdicts cannot be given: {error.what}. Next: {error.fix}.",)), None
    sealed = {one.number: one for one in registrations}
    given = {(None, one.name): one for one in study.predictions}
    for number, registration in sealed.items():
        given |= {(number, one.name): one for one in registration.study.predictions}
    return block(judgement, given, sealed, source, judged), judgement


def block(judgement: Judgement, given: Mapping[tuple[int | None, str], Prediction], sealed: Mapping[int, Registration], source: str,
          judged: str | None) -> Block:  # fmt: skip
    """given: the predictions by (number of their registration, name), None for those of the file.  sealed: the registrations by number.

    judged: when that was first done, None if not yet.
    """
    waiting = "" if judgement.transcribed else _waiting(judgement, source, judged)
    hidden = _hidden(judgement.verdicts) if not judged and not judgement.transcribed else set()
    lines = []
    for place, verdict in enumerate(judgement.verdicts, 1):
        later = ""
        if verdict.kind == NOT_ESTIMABLE:
            asks = f"it rests on the held-out part, which `ostinato judge {source}` reads" if verdict.name in hidden else ""
            later = waiting or asks
        number = max(sealed, default=None) if judgement.faults and verdict.withdrawn else verdict.registered
        kept = None if judgement.faults else sealed
        lines.append(line(f"v{place}", verdict, given.get((number, verdict.name)), kept, later))
    tables = [table for table in (quantity_table(judgement), held_out_table(judgement)) if table.rows]
    return Block(
        _tally(lines),
        (words.registered_words(judgement), *judgement.faults) if judgement.faults else (),
        tuple(one for one in lines if not one.verdict.exploratory),
        tuple(one for one in lines if one.verdict.exploratory),
        tuple(_facts(judgement, source, judged)) if lines or judgement.contingent or tables else (),
        judgement.notes if lines else (),
        tuple(table_html(table) for table in tables),
        tuple((f"registration {one.number}", _registration(one)) for one in sealed.values()),
        "" if lines or judgement.transcribed else f"No prediction is made. Write what is expected under `predictions:` (`ostinato keys "
        f"predictions` says how), then seal it with `ostinato register {source}`.",
    )


def _registration(one: Registration) -> str:
    after = f"after results of {several_runs(one.results)}" if one.results else "before any result"
    changed = f"; changed since the one before: {'; '.join(change_lines(one.changes))}" if one.changes else ""
    seen = f"; the held-out part was looked at on {words.moment(one.held_out_shown)}" if one.held_out_shown else ""
    return f"{words.moment(one.at)}, {after}; commit {commit_words(one)}; fingerprint `{one.fingerprint}`{seen}{changed}"


def _waiting(judgement: Judgement, source: str, judged: str | None) -> str:
    """Why nothing can be judged yet, "" where something can."""
    if judgement.totals["done"]:
        return ""
    return f"no run is at its end yet: `ostinato run {source}`" + ("" if judged else f", then `ostinato judge {source}`")


def _hidden(verdicts: Sequence[Verdict]) -> set[str]:
    """The predictions that ask for the held-out part, by themselves or through the outcome of another."""
    asks, direct = {}, set()
    for verdict in verdicts:
        for one in verdict.conditions:
            try:
                node = parse_condition(one.text)
            except OstinatoError:
                continue  # otherwise
            asks.setdefault(verdict.name, set()).update(asked.prediction for asked in outcomes(node))
            direct |= {verdict.name for term in measures(node) if ("part", "held_out") in term.options}
    found: set[str] = set()
    while direct - found:
        found |= direct
        direct = {name for name, others in asks.items() if others & found}
    return found


def _tally(lines: Sequence[Line]) -> str:
    """How many of each kind, exploratory ones apart."""
    said = []
    for title, group in (("", [one for one in lines if not one.verdict.exploratory]),
                         ("exploratory: ", [one for one in lines if one.verdict.exploratory])):  # fmt: skip
        judged = words.tally(tuple(one.verdict for one in group if one.kind != NOT_YET))
        later = sum(one.kind == NOT_YET for one in group)
        parts = [part for part in (judged, f"{later} not judged yet" if later else "") if part]
        said += [title + ", ".join(parts)] if parts else []
    tally = "; ".join(said)
    return tally[:1].upper() + tally[1:]


def _facts(judgement: Judgement, source: str, judged: str | None) -> Iterator[str]:
    if judgement.verdicts and not judgement.faults:
        known = judgement.registrations or judgement.transcribed
        how = "" if known else f" `ostinato register {source}` seals predictions before the runs that are to come."
        yield words.registered_words(judgement) + how
    if not judgement.transcribed:
        yield words.runs_words(judgement)
    for one in judgement.contingent:
        yield f"Contingent arm {words.contingent_words(one)}."
    if judgement.verdicts and not judgement.transcribed:
        yield (f"First judged {words.moment(judged)}; the verdicts are those of the store as it is now." if judged else
               f"As the store is now. `ostinato judge {source}` judges it, and shows the held-out gains.")  # fmt: skip
