"""`write_report`: gather what the store knows of a study, and write it as one page that needs nothing else.

The page holds its style, its figures and a small script, asks nothing of the network (a content policy forbids it), and carries no
time of its making: the same store gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

import ostinato
from ostinato.analysis import BITS, ArmResult, results_table
from ostinato.analysis.crossover import crossovers
from ostinato.files import write_atomic
from ostinato.ledger.plan import Plan, plan
from ostinato.ledger.settings import other_settings, schedule_words, settings
from ostinato.report import courses as course
from ostinato.report import numbers
from ostinato.report.controls import control_table, controls
from ostinato.report.costs import costs_table
from ostinato.report.looks import COLOURS
from ostinato.report.machines import machines, run_table
from ostinato.report.page import asset, environment, table_html
from ostinato.report.panels import panels
from ostinato.report.plan import application_table, budget_line, cost_tables, matched_table
from ostinato.report.results import STATE_WORDS, results_rows
from ostinato.report.says import says
from ostinato.report.sections import sections
from ostinato.report.sentences import answer
from ostinato.report.sweeps import sweep_tables
from ostinato.report.units import only_base, unit_of
from ostinato.report.verdicts import study_block
from ostinato.schedule import draw_svg
from ostinato.store import RunFolder, Store, study_hash
from ostinato.store.studies import folder_name
from ostinato.study import arm_applications, tied_to
from ostinato.study.load import is_shipped
from ostinato.study.records import Arm, Study

MOST_APPLICATION_TABLES = 12


def write_report(study: Study, store: Store, out: Path | None = None) -> Path:
    """Write the page of a study, finished or not, and return its path (default: reports/ in the store, named by study and hash).

    Reads the store and nothing else; held-out losses only once `ostinato judge` was given. Raises StoreError when a stored file is torn.
    """
    name = "-".join([folder_name(study.name), *([folder_name(study.size)] if study.size else []), study_hash(study)[:8]]) + ".html"
    path = out or store.root / "reports" / name
    if path.is_dir():
        path = path / name
    write_atomic(path, page(study, store))
    return path


def page(study: Study, store: Store) -> str:
    """The page as text."""
    version = store.study_folder(study.name).version(study)
    folders = store.runs_of(study)
    results = results_table(study, store)
    planned = _with_extents(plan(study), folders)
    pairs = controls(results, folders, store)
    found = course.courses(study, folders)
    base = only_base(results)
    script = asset("page.js")
    block, judgement = study_block(study, store, results, _source(study))
    return environment().get_template("page.html.j2").render(
        study=study,
        version=ostinato.__version__,
        hash=study_hash(study),
        others=[other.name for other in store.study_folder(study.name).versions() if version is None or other.name != version.name],
        block=block,
        judged=store.study_folder(study.name).judged(study),
        said=answer(study, results, pairs, judgement),
        says=says(study, results, crossovers(results, store, folders)),
        base=base,
        over=base or "the arm that each is compared with",
        tokenizers=unit_of(study) == BITS,
        sweeps=[table_html(table) for table in sweep_tables(results, unit_of(study))],
        costs=table_html(costs_table(results)),
        strip=_strip(study, results, planned),
        results=results,
        measured=any(result.tokens is not None for result in results),
        windows=next((result.windows for result in results if result.windows), ""),
        budget=budget_line(planned),
        drawings=_drawings(study),
        common=_common(study),
        cost=Markup().join(table_html(table) for table in cost_tables(planned)),
        matched=table_html(matched_table(planned)),
        warnings=[*study.warnings, *planned.warnings],
        applications=[table_html(application_table(*numbered)) for numbered in enumerate(planned.ledgers[:MOST_APPLICATION_TABLES])],
        table=table_html(results_rows(results, study.reference)),
        controls=table_html(control_table(pairs)) if pairs else "",
        figures={name: Markup(svg) for name, svg in panels(study, results, found, planned).items() if svg},
        many=len(study.arms) - 1 > COLOURS,
        sections=_sections(study, store, results),
        runs=table_html(run_table(results, folders)),
        unfinished=_unfinished(results, folders),
        machines=machines(folders),
        texts=_texts(folders),
        command=_command(study),
        style=Markup(asset("page.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )  # fmt: skip


def _with_extents(planned: Plan, folders: Mapping[tuple[str, int], RunFolder]) -> Plan:
    """The plan with epochs and words as the runs recorded them: only a prepared text knows its size."""
    known: dict[str, dict[str, Any]] = {}
    for (arm, _), folder in folders.items():
        if arm not in known and folder.exists():
            known[arm] = folder.resolved().get("ledger") or {}
    ledgers = []
    for ledger in planned.ledgers:
        stored = known.get(ledger.name, {})
        fill = {key: stored[key] for key in ("epochs", "first_pass_ends", "words") if stored.get(key) is not None}
        ledgers.append(replace(ledger, **fill))
    return replace(planned, ledgers=tuple(ledgers))


def _sections(study: Study, store: Store, results: Sequence[ArmResult]) -> list[dict[str, Any]]:
    """What else was measured, ready for the template."""
    found = []
    for one in sections(study, store, results):
        figures = [{"caption": figure.caption, "note": figure.note, "svg": Markup(figure.svg)} for figure in one.figures]
        tables = {name: [table_html(table) for table in getattr(one, name)] for name in ("tables", "more")}
        found.append({**vars(one), "figures": figures, **tables})
    return found


def _strip(study: Study, results: Sequence[ArmResult], planned: Plan) -> list[tuple[str, str]]:
    """The facts under the answer."""
    runs = [run for result in results for run in result.runs if run.state != "not asked"]
    seeds = {len(arm.seeds) for arm in study.arms}
    tokens = {ledger.tokens for ledger in planned.ledgers}
    targets = {result.targets for result in results if result.targets}
    documents = {result.pairing.documents for result in results if result.pairing}
    corpora = list(dict.fromkeys(_corpus(arm.data.corpus) for arm in study.arms))
    vocabularies = sorted({ledger.vocab for ledger in planned.ledgers})

    def span(values: set[int], form: Any = numbers.exact) -> str:
        return form(min(values)) if len(values) == 1 else f"{form(min(values))} to {form(max(values))}"

    strip = [
        ("arms", str(len(study.arms))),
        ("seeds an arm", span(seeds)),
        ("runs finished", f"{sum(run.state == 'done' for run in runs)} of {len(runs)}"),
        ("tokens a run", span(tokens, numbers.human)),
        ("text", ", ".join(corpora)),
        ("vocabulary", span(set(vocabularies))),
    ]
    if targets:
        strip.append(("validation targets", span(targets)))
    if documents:
        strip.append(("in documents", span(documents)))
    return strip


def _drawings(study: Study) -> list[dict[str, Any]]:
    """One of every arm; of arms that look alike, and of which nothing else is said, one for all of them."""
    found: dict[tuple, dict[str, Any]] = {}
    for arm in study.arms:
        one = _drawing(arm, arm.name == study.reference)
        first = found.setdefault((one["schedule"], one["svg"], one["note"], one["contingent"], one["run_if"]), {**one, "others": []})
        if first["name"] != arm.name:
            first["others"].append(arm.name)
    return list(found.values())


def _drawing(arm: Arm, reference: bool) -> dict[str, Any]:
    model = arm.model
    svg = draw_svg(arm_applications(model), len(model.layers), model.layers, tied_to(model), model.inject)
    return {"name": arm.name, "note": arm.note, "contingent": arm.contingent, "run_if": arm.run_if, "schedule": schedule_words(model),
            "seeds": arm.seeds, "reference": reference, "svg": Markup(svg)}  # fmt: skip


def _common(study: Study) -> list[tuple[str, str]]:
    """Settings that every arm shares, in words; what differs is in the table of what is matched."""
    all_settings = [{**settings(arm), **other_settings(arm)} for arm in study.arms]
    first = all_settings[0]
    shared = [(key, value) for key, value in first.items() if all(one.get(key) == value for one in all_settings)]
    plain = {"None": "not set", "True": "yes", "False": "no"}
    corpus = study.arms[0].data.corpus
    return [(key, plain.get(value, value).replace(corpus, _corpus(corpus))) for key, value in shared if key != "schedule"]


def _corpus(corpus: str) -> str:
    """A corpus as a reader may know it: of a file or folder its name, not the way to it on one machine."""
    return Path(corpus).name if Path(corpus).is_absolute() else corpus


def _unfinished(results: Sequence[ArmResult], folders: Mapping[tuple[str, int], RunFolder]) -> list[str]:
    found = [f"{arm}, seed {seed}: {torn}; `ostinato run` takes it again"
             for (arm, seed), folder in folders.items() for torn in folder.torn_measures()]  # fmt: skip
    for result in results:
        for run in result.runs:
            if run.state not in ("done", "not asked"):
                words = STATE_WORDS.get(run.state, run.state)
                reached = f" at {numbers.human(run.tokens)} tokens" if run.tokens else ""
                found.append(f"{result.name}, seed {run.seed}: {words}{reached}" + (f". {run.error}" if run.error else ""))
    return found


def _texts(folders: Mapping[tuple[str, int], RunFolder]) -> list[str]:
    """The fingerprints of the prepared texts that runs were trained on."""
    records = [folder.resolved() for folder in folders.values() if folder.exists()]
    return list(dict.fromkeys(str(one["data_fingerprint"]) for one in records if one.get("data_fingerprint")))


def _command(study: Study) -> str:
    """The command that makes the same runs again."""
    return f"ostinato run {_source(study)}"


def _source(study: Study) -> str:
    """The study as the command line names it, with its size."""
    import shlex

    source = Path(study.path).name if study.path and not is_shipped(study) else study.name
    return shlex.quote(source) + (f" --size {shlex.quote(study.size)}" if study.size else "")
