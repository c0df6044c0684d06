"""SQL over a store: the views, read-only, and errors that help."""

from __future__ import annotations

import math

import pytest

from ostinato.errors import StoreError
from ostinato.store import VIEWS


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_has_the_columns_it_promises_empty_or_not(view, store, filled, tmp_path):
    from ostinato.store import Store

    for one in (Store(tmp_path / "empty"), filled):
        assert one.query(f"select * from {view}").columns == VIEWS[view].split(", ")
    assert filled.query(f"select * from {view}").rows
    assert not (tmp_path / "empty").exists()


def test_results_are_sums_divided_once(filled):
    answer = filled.query("select arm, seed, tokens, targets, nats, bits_per_byte, perplexity from results order by arm, tokens")
    assert [row[:4] for row in answer.rows] == [("plain", 1, 100, 20), ("plain", 1, 200, 20), ("twice", 1, 100, 20), ("twice", 1, 200, 20)]
    nats = answer.rows[0][4]
    assert nats == pytest.approx(2.9) and answer.rows[0][5] == pytest.approx(2.9 / (3 * math.log(2)))
    assert answer.rows[0][6] == pytest.approx(math.exp(nats))
    assert answer.records()[0]["arm"] == "plain"


def test_results_agree_with_the_losses_view(filled):
    rows = filled.query("""select r.run, r.tokens, any_value(r.nats), avg(l.loss::double) from results r
                           join losses l on l.run = r.run and l.tokens = r.tokens and l.part = r.part group by 1, 2""").rows
    assert len(rows) == 4 and all(nats == pytest.approx(mean) for _, _, nats, mean in rows)


def test_losses_join_their_targets_in_order(filled):
    rows = filled.query("""select target, document, position, token from losses join targets using (target_id, target)
                           where arm = 'twice' and tokens = 200 order by target""").rows
    assert len(rows) == 20 and rows[7] == (7, 1, 3, 7)


def test_measures_of_runs_and_of_other_models(filled):
    assert filled.query("select arm, measure, targets from measures where measure = 'pairs' order by arm").rows == [
        ("elsewhere", "pairs", None), ("plain", "pairs", 16), ("twice", "pairs", 16)]  # fmt: skip
    right = filled.query("select arm, tokens, avg((good_bos > bad_bos)::int) from pairs group by all order by arm").rows
    assert right == [("elsewhere", 0, 0.5), ("plain", 200, 0.5), ("twice", 200, 0.5)]
    assert filled.query("select distinct sum / count from heads").rows == [(0.5,)]
    assert filled.query('select distinct "update" / positions, rank from states').rows == [(0.5, 3.0)]


def test_measures_by_target_are_sums_over_classes(filled):
    lens = filled.query("""select application, layer, part, pass, sum, count from lens where arm = 'plain' and class = 'all'
                           order by application nulls first""").rows
    assert lens == [(None, None, None, None, 24.0, 3), (0, 1, "both", 1, 12.0, 3), (1, 1, "attn", 2, 3.5, 3)]
    by_class = filled.query("select class, sum, count from lens where arm = 'plain' and application = 0 and count > 0 order by class").rows
    assert by_class == [("all", 12.0, 3), ("bigram-repeat", 3.0, 1), ("k = 0", 9.0, 2), ("k = 8", 3.0, 1), ("new", 5.0, 1),
                        ("tok-repeat", 4.0, 1)]  # fmt: skip
    assert filled.query("select distinct class from lens where arm = 'elsewhere'").rows == [("all",)], "whose targets have no classes"
    skips = filled.query("""select skipped, application, pass, sum from skips where arm = 'twice' and class = 'all'
                            order by skipped, application, pass""").rows
    assert skips == [("application", 0, 1, 7.0), ("application", 1, 2, 3.5), ("nothing", None, None, 3.0), ("pass", None, 1, 13.0),
                     ("pass", None, 2, 3.5)]  # fmt: skip
    depths = filled.query("select passes, sum, kl, count from depths where arm = 'plain' and class = 'k = 8' order by passes").rows
    assert depths == [(1, 2.0, None, 1), (2, 1.5, 0.5, 1)]
    mean = filled.query("select class, sum(sum) / sum(count) from skips where skipped = 'nothing' and class = 'all' group by all").rows
    assert mean == [("all", 1.5)]


def test_what_runs_cost(filled):
    filled.runs()[0].write_peak(123, "cpu")
    assert filled.query("select peak_bytes, tokens_per_s > 0 from runs order by arm").rows == [(123, True), (None, True)]


def test_runs_and_steps(filled):
    assert filled.query("select arm, state, studies, params_total, seconds from runs order by arm").rows == [
        ("plain", "done", "tiny", 7, 1.5),
        ("twice", "done", "tiny", 7, 1.5),
    ]
    filled.runs()[0].finish_steps()  # one log is Parquet, the other still JSON lines
    assert filled.query("select arm, count(*), max(tokens) from steps group by arm order by arm").rows == [
        ("plain", 2, 200),
        ("twice", 2, 200),
    ]


def test_held_out_is_shown_only_when_asked_and_then_logged(filled):
    assert filled.query("select distinct part from losses").rows == [("validation",)]
    assert filled.query("select distinct part from results").rows == [("validation",)]
    folder = filled.study_folder("tiny")
    assert folder.held_out_shown() is None
    assert filled.query("select distinct part from results order by part", held_out=True).rows == [("held_out",), ("validation",)]
    assert folder.held_out_shown() is not None


@pytest.mark.parametrize("sql", ["drop table runs", "create table x as select 1", "copy (select 1) to 'x.csv'", "select 1; select 2", "",
                                 "attach 'x.db'", "insert into runs values (1)", "set threads = 3", "pragma database_size",
                                 "explain analyze copy (select 1) to 'x.csv'", "EXPLAIN (ANALYZE) copy (select 1) to 'x.csv'",
                                 "/* */ explain analyze copy (select 1) to 'x.csv'",
                                 "explain copy (select 1) to 'x.csv'"])  # fmt: skip
def test_the_store_is_only_read(filled, sql, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreError, match="one SELECT"):
        filled.query(sql)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("sql", ["explain select arm from runs", "Explain Analyze select arm from runs", "explain (format json) select 1"])
def test_a_select_can_be_explained(filled, sql):
    assert filled.query(sql).rows


def test_an_extension_is_never_fetched(filled):
    with pytest.raises(StoreError) as caught:
        filled.query("select * from 'https://localhost:1/x.csv'")
    assert "install" not in caught.value.what


@pytest.mark.parametrize("sql", ["select nat from results", "select * from rans", "selec 1", "select 1 +", "select 'a'::int"])
def test_a_bad_query_names_the_views_and_columns(filled, sql):
    with pytest.raises(StoreError) as caught:
        filled.query(sql)
    assert sql in caught.value.what
    for view, columns in VIEWS.items():
        assert f"{view} ({columns})" in caught.value.fix


def test_a_torn_loss_file_is_named(filled):
    file = filled.runs()[0].losses_path("validation", 100)
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(StoreError, match=r"validation/100\.parquet cannot be read"):
        filled.query("select * from results")
    assert filled.query("select count(*) from runs").rows == [(2,)], "what does not need the file still answers"


def test_columns_the_word_alone_selects(filled):
    assert filled.query("from RESULTS select count(*)").rows == [(4,)]
    assert filled.query("describe results").rows[0][0] == "study"
    assert filled.query("with best as (select min(nats) as nats from results) select nats from best").rows[0][0] == pytest.approx(2.3)
