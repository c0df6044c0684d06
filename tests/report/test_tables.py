"""One table in three forms: terminal at several widths, page, notebook."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from ostinato.ledger.plan import plan
from ostinato.report import PlanSheet, Results
from ostinato.report.numbers import human
from ostinato.report.plan import also_equal, always_equal, cost_table, matched_table, runs_line
from ostinato.report.tables import Cell, Column, Row, Table, to_rich
from ostinato.study import load_study


def printed(thing, width):
    console = Console(width=width, color_system=None, legacy_windows=False, force_terminal=False)
    with console.capture() as capture:
        console.print(thing)
    return capture.get()


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_results_fit_the_terminal(filled, study, width):
    text = printed(Results(study, filled), width)
    assert max(map(len, text.rstrip("\n").split("\n"))) <= width
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.split()}
    for result in Results(study, filled).arms:
        assert f"{result.sums.nats_per_token:.4f}" in rows[result.name], "no number is broken or cut"
    assert "unigram" in rows and "5.3360" in rows["unigram"]
    assert ("windows" in text) == (width > 108), "columns to spare go first"
    assert "…" not in text


@pytest.mark.parametrize("width", [80, 110])
@pytest.mark.parametrize("name", ["quickstart", "loop2", "hybrid", "ilr"])
def test_every_shipped_plan_fits_the_terminal(name, width):
    sheet = PlanSheet(plan(load_study(name)))
    text = printed(sheet, width)
    assert max(map(len, text.rstrip("\n").split("\n"))) <= width
    lines = text.splitlines()
    for ledger in sheet.plan.ledgers:
        row = next(line for line in lines if line.startswith(ledger.name + " ")).split()
        assert human(ledger.params_total) in row and human(ledger.flops_per_token) in row, row
        assert row[-1][-1] == "B", "the last column is whole"
    for comparison in sheet.plan.comparisons.values():
        assert all(str(axis)[:12] in " ".join(text.split()) for axis in comparison.different)
    assert all(" ".join(warning.split()) in " ".join(text.split()) for warning in sheet.plan.warnings)


def test_a_prompt_shows_the_table(filled, study):
    assert "What each arm costs" in repr(PlanSheet(plan(study))) and "a floor" in repr(Results(study, filled))


def test_a_plan_says_how_many_runs():
    assert "8 runs (4 arms, 2 seeds each)" in " ".join(printed(PlanSheet(plan(load_study("quickstart"))), 100).split())
    assert "2 arms more where what they wait for comes true" in printed(PlanSheet(plan(load_study("loop2", size="paper"))), 200)
    study = load_study("quickstart")
    again = study.arms[2].model_copy(update={"name": "again", "seeds": (2, 3)})
    planned = plan(study.model_copy(update={"arms": [*study.arms, again]}))
    assert len(planned.runs) == 9 and "9 runs (5 arms; a run that arms share is counted once)" in runs_line(planned)


def test_rows_are_json(filled, study):
    rows = json.loads(json.dumps(Results(study, filled).rows(), allow_nan=False))
    assert [row["arm"] for row in rows] == ["plain", "early", "twice", "deep"] and rows[2]["gain"] > 0
    planned = json.loads(json.dumps(PlanSheet(plan(study)).rows(), allow_nan=False))
    assert planned[0]["params_total"] == plan(study).ledgers[0].params_total


def test_notebook_shows_the_same_rows(filled, study):
    html = Results(study, filled)._repr_html_()
    assert html.count("<tr") == 1 + 4 + 2 and "better by" in html and "<script" not in html
    html = PlanSheet(plan(study))._repr_html_()
    assert "1.90×" in html and "one learning rate" in html and html.count("<table") == 2


def test_the_store_is_read_once(filled, study):
    results = Results(study, filled)
    assert results.arms is results.arms


def test_what_is_equal_everywhere_is_said_once(study):
    planned = plan(study)
    everywhere = always_equal(planned)
    assert "tokens" in everywhere and "parameters" not in everywhere
    assert also_equal(planned)["twice"][:1] == ["parameters"] and "FLOPs per token" not in also_equal(planned)["deep"]
    table = matched_table(planned)
    for row in table.rows:
        comparison = planned.comparisons[row.cells[0].text]
        said = ", ".join([row.cells[2].text, *everywhere])
        assert all(axis.name in said if axis.relation != "differs" else str(axis) in row.cells[3].text for axis in comparison.axes)


def test_unknown_extents_are_not_numbers(study, monkeypatch, tmp_path):
    monkeypatch.setenv("OSTINATO_CACHE", str(tmp_path))  # whatever is prepared on this machine
    table = cost_table(plan(study))
    assert "epochs" not in [column.label for column in table.on_page().columns]


def test_memory_is_that_of_the_recipe(study):
    recipe = study.arms[0].recipe.model_copy(update={"activation_checkpointing": True})
    planned = plan(study.model_copy(update={"arms": [arm.model_copy(update={"recipe": recipe}) for arm in study.arms]}))
    labels = [column.label for column in cost_table(planned).columns]
    for ledger, row in zip(planned.ledgers, cost_table(planned).rows, strict=True):
        shown = dict(zip(labels, row.cells, strict=True))
        assert shown["memory"].value == shown["with recomputing"].value == ledger.memory_total


def test_long_names_and_markup_are_text():
    table = Table("t", "[bold]caption", (Column("arm", number=False), Column("n")), (Row((Cell("[red]x[/red]"), Cell("1"))),))
    text = printed(to_rich(table), 60)
    assert "[red]x[/red]" in text and "[bold]caption" in text


def test_columns_to_spare_go_in_order():
    columns = (Column("arm", number=False), Column("one", spare=1), Column("two", spare=2), Column("kept"))
    table = Table("t", "", columns, (Row((Cell("a" * 10), Cell("1" * 10), Cell("2" * 10), Cell("3" * 10))),))
    assert [column.label for column in table.in_terminal(100).columns] == ["arm", "one", "two", "kept"]
    assert [column.label for column in table.in_terminal(40).columns] == ["arm", "one", "kept"]
    assert [column.label for column in table.in_terminal(10).columns] == ["arm", "kept"]
