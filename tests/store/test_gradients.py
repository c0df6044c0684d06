"""The log of gradients: one row a number, kept and finished like the log of steps, torn or cut off at any moment."""

from __future__ import annotations

import pytest

from ostinato.errors import StoreError
from ostinato.store import gradients as room
from ostinato.store.gradients import COLUMNS
from ostinato.store.runs import RunFolder
from ostinato.store.store import Store


def record(step):
    return {"step": step, "tokens": 64 * step, "targets": 16, "seconds": 0.25, "applications": [[1, "both", 1], [1, "attn", 2]],
            "norms": {"embedding.weight": 0.5, "layers.1.attn.q.weight": 0.125 * step},
            "dots": {"layers.1.attn.q.weight": [[0, 1], [4.0, 1.0, 9.0]], "layers.1.mlp.up.weight": [[0], [0.25]]},
            "loss": [3.0, 2.0, 1.0], "growth": [1.5, 1.25, 1.0]}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path / "runs" / "a")
    folder.path.mkdir(parents=True)
    return folder


def rows(folder):
    return [tuple(row[name] for name in COLUMNS) for row in folder.gradients().to_pylist()]


def steps(folder):
    return sorted({row[0] for row in rows(folder)})


def test_one_row_a_number(folder):
    folder.append_gradients(record(2))
    head, q, up = (2, 128, 16, 0.25), "layers.1.attn.q.weight", "layers.1.mlp.up.weight"
    assert rows(folder) == [
        (*head, "norm", "embedding.weight", None, None, None, None, None, 0.5),
        (*head, "norm", q, None, None, None, None, None, 0.25),
        (*head, "dot", q, 0, 1, "both", 1, 0, 4.0),
        (*head, "dot", q, 1, 1, "attn", 2, 0, 1.0),
        (*head, "dot", q, 1, 1, "attn", 2, 1, 9.0),
        (*head, "dot", up, 0, 1, "both", 1, 0, 0.25),
        *((*head, "loss", None, *place, None, value) for place, value in zip(PLACES, (3.0, 2.0, 1.0), strict=True)),
        *((*head, "growth", None, *place, None, value) for place, value in zip(PLACES, (1.5, 1.25, 1.0), strict=True)),
    ]


PLACES = ((-1, None, None, None), (0, 1, "both", 1), (1, 1, "attn", 2))


def test_without_any_there_are_no_rows(folder):
    assert folder.gradients().num_rows == 0 and folder.gradients().column_names == list(COLUMNS)
    folder.finish_steps()
    assert not folder.finished_gradients_path.exists()


def test_finished_it_is_the_same_and_twice_is_once(folder):
    for step in (1, 3):
        folder.append_gradients(record(step))
    before = rows(folder)
    folder.finish_steps()
    folder.finish_steps()
    assert rows(folder) == before and not folder.gradients_path.exists()


def test_a_process_killed_while_it_finishes_leaves_no_row_twice(folder, monkeypatch):
    folder.append_gradients(record(1))
    log = folder.gradients_path.read_bytes()
    folder.finish_steps()
    before = rows(folder)
    folder.gradients_path.write_bytes(log)
    assert rows(folder) == before
    folder.append_gradients(record(3))
    assert steps(folder) == [1, 3]
    folder.finish_steps()
    assert steps(folder) == [1, 3] and len(rows(folder)) == 2 * len(before)


@pytest.mark.parametrize("finished", [False, True])
def test_steps_that_are_taken_again_are_dropped(folder, finished):
    for step in (1, 3, 6):
        folder.append_gradients(record(step))
    if finished:
        folder.finish_steps()
    folder.keep_steps(3)
    assert steps(folder) == [1, 3]
    folder.append_gradients(record(6))
    assert steps(folder) == [1, 3, 6]


def test_a_torn_last_line_is_left_out_and_a_torn_table_is_named(folder):
    folder.append_gradients(record(1))
    with open(folder.gradients_path, "a") as file:
        file.write('{"step": 3, "tok')
    assert steps(folder) == [1]
    folder.keep_steps(2)
    folder.append_gradients(record(3))
    assert steps(folder) == [1, 3]
    folder.finish_steps()
    folder.finished_gradients_path.write_bytes(b"torn")
    with pytest.raises(StoreError, match=r"gradients\.parquet cannot be read"):
        folder.gradients()


def test_the_words_of_the_columns_are_those_of_the_table():
    assert room.gradients_table([record(1)]).column_names == list(COLUMNS)


def test_they_can_be_asked_for(tmp_path):
    store = Store(tmp_path).create()
    for name, step in (("a" * 16, 1), ("b" * 16, 3)):
        folder = store.run(name)
        folder.write_record({"arm": name[0], "seed": 1}, {}, {})
        folder.append_gradients(record(step))
    store.run("a" * 16).finish_steps()  # one log is Parquet, the other still JSON lines
    asked = "select arm, step, sum(value) from gradients where kind = 'dot' and application = other group by all order by arm"
    assert store.query(asked).rows == [("a", 1, 13.25), ("b", 3, 13.25)]
    assert store.query("select parameter, value from gradients where kind = 'norm' and value > 0.3 and step = 3").rows == [
        ("embedding.weight", 0.5),
        ("layers.1.attn.q.weight", 0.375),
    ]
