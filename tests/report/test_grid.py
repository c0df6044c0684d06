"""The compact table of a grid: what the law knows of each arm, FLOPs as its budgets count them, and nothing of it elsewhere."""

from __future__ import annotations

import pytest
from rich.console import Console

from ostinato.ledger.plan import plan
from ostinato.report import PlanSheet
from ostinato.report.grid import grid, grid_table
from ostinato.report.plan import budget_line, cost_table, runs_line
from ostinato.report.write import page
from ostinato.scaling.study import size_of
from ostinato.study import load_study

SMALL = """\
question: What is a pass worth?
data: {corpus: python-docs, tokenizer: {bpe: 512}, packing: contiguous}
model: {head_dim: 16, inject: linear, pass_norm: yes, mlp: {kind: relu2, ratio: 4}, norm: {weight: no}, tie_embeddings: no}
recipe: {batch: 512, context: 64}
seeds: [1]
grid: {prelude: 1, core: 4, coda: 1, r: [1, 2], BUDGETS}
"""


@pytest.fixture
def by_flops(make_study):
    return make_study(SMALL.replace("BUDGETS", "flops: {1e11: [32, 48, 64], 3e11: [32, 48, 64]}"))


@pytest.fixture
def by_tokens(make_study):
    return make_study(SMALL.replace("BUDGETS", "tokens: {51200: [32, 48, 64]}"), "tokens")


def printed(thing, width=80):
    console = Console(width=width, color_system=None, legacy_windows=False, force_terminal=False)
    with console.capture() as capture:
        console.print(thing)
    return capture.get()


def test_every_run_stands_at_its_budget(by_flops):
    planned = plan(by_flops)
    table = grid_table(found := grid(planned))
    labels = [column.label for column in table.columns]
    assert labels == ["arm", "N_once", "N_rec", "r", "tokens", "steps", "training FLOPs"]
    for ledger, row in zip(planned.ledgers, table.rows, strict=True):
        name, once, again, r, tokens, steps, flops = (cell.value for cell in row.cells)
        size = size_of(ledger.arm)
        assert (name, once, again, r, tokens, steps) == (ledger.name, size.N_once, size.N_rec, size.r, ledger.tokens, ledger.steps)
        assert flops == pytest.approx(float(name.rpartition("C")[2]), rel=0.01) and flops > 1.01 * ledger.flops_total
    assert "all keys of the context" in found.convention and "budget C in a name" in found.convention
    assert f"{sum(map(found.flops, planned.runs)):.2e}".replace("+", "") in runs_line(planned, found)


def test_a_budget_of_tokens_leaves_flops_by_the_published_convention(by_tokens):
    planned = plan(by_tokens)
    found = grid(planned)
    assert [found.flops(ledger) for ledger in planned.ledgers] == [ledger.flops_total for ledger in planned.ledgers]
    assert "budget of tokens" in found.convention


@pytest.mark.parametrize("name", ["quickstart", "loop2", "ilr"])
def test_other_studies_are_no_grid(name):
    assert grid(plan(load_study(name))) is None


def test_a_terminal_shows_the_grid_and_the_rest_when_asked(by_flops):
    sheet = PlanSheet(plan(by_flops))
    short, full = printed(sheet), printed(PlanSheet(sheet.plan, full=True))
    for text in (short, full):
        assert max(map(len, text.splitlines())) <= 80
        screen = " ".join("\n".join(text.splitlines()[:8]).split())
        assert "12 runs (12 arms, 1 seed each)" in screen and "parameters and are trained on" in screen and "ostinato calibrate" in screen
        assert text.count("d48 r2 C1e11 ") >= 1 and "injection comes with looping" in text
    assert "What each arm costs" not in short and "differs in" not in short and "--full" in short
    assert "What each arm costs" in full and "differs in" in full and "--full" not in full


def test_the_plan_of_the_paper_is_a_few_screens():
    lines = printed(PlanSheet(plan(load_study("phi", "paper")))).splitlines()
    assert len(lines) < 116 + 50
    warnings = [index for index, line in enumerate(lines) if line.startswith("! ")]
    assert all(end - start <= 3 for start, end in zip(warnings, [*warnings[1:], len(lines)], strict=True))


def test_json_has_what_the_law_sees(by_flops):
    rows = PlanSheet(plan(by_flops)).rows()
    sizes = {arm.name: size_of(arm) for arm in by_flops.arms}
    assert all((row["N_once"], row["N_rec"], row["r"]) == tuple(vars(sizes[row["arm"]]).values()) for row in rows)
    assert all(row["flops_total_trainer"] == row["flops_per_token_trainer"] * row["tokens"] for row in rows)
    assert "N_once" not in PlanSheet(plan(load_study("quickstart"))).rows()[0]


def test_the_page_and_the_notebook_begin_with_the_grid(by_flops, store):
    for html in (page(by_flops, store), PlanSheet(plan(by_flops))._repr_html_()):
        assert 0 < html.index("N_rec") < html.index("times ref.") and "budget C in a name" in html


@pytest.mark.parametrize("width", [80, 60])
def test_tokens_that_differ_are_never_left_out(by_flops, study, width):
    assert "tokens" in [column.label for column in cost_table(plan(by_flops)).in_terminal(width).columns]
    assert "tokens" not in [column.label for column in cost_table(plan(study)).in_terminal(200).columns], "where all are equal"
    assert "trained on" in budget_line(plan(by_flops)) and budget_line(plan(study)).startswith("Every arm: ")
    assert budget_line(plan(load_study("loop2"))).startswith("Arms have 50.3M to 126M parameters and are trained on 500M to 999M tokens")
