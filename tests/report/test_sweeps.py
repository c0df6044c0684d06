"""Arms that differ in one number: found whatever way they are written, and only when nothing else differs."""

from __future__ import annotations

import pytest

from ostinato.analysis import BITS, NATS, results_table
from ostinato.report.sweeps import sweep_tables
from ostinato.report.write import page

from .test_page import Reader
from .test_pairs_on_the_page import made

HEAD = """\
model: {layers: 2, d_model: 32, heads: 2}
recipe: {tokens: 10240, batch: 1024, context: 128}
data: {tokenizer: {bpe: 512}}
seeds: [1]
reference: plain
arms:
  plain: {}
"""
PASSES = """\
  three: {schedule: (1)x3 (2)x3}
  two: {schedule: "(1)x{r} (2)x{r}", passes: 2}
  four: {schedule: "(1)x{r} (2)x{r}", passes: 4, recipe: {micro_batch: 128}}
  partly: {schedule: 1 1 1 2}
  wider: {schedule: "(1)x{r} (2)x{r}", passes: 5, mlp: {ratio: 2}}
"""
SHARES = """\
  again: {schedule: 1..2 1..2, against: plain}
  plain-half: {data: {training_share: 0.5}}
  again-half: {schedule: 1..2 1..2, data: {training_share: 0.5}, against: plain-half}
  plain-quarter: {data: {training_share: 0.25}}
  again-quarter: {schedule: 1..2 1..2, data: {training_share: 0.25}, against: plain-quarter}
"""


@pytest.mark.parametrize(
    ("arms", "name", "rows"),
    [
        (PASSES, "passes", [("2", "two"), ("3", "three"), ("4", "four")]),
        (SHARES, "share of the training text", [("0.25", "again-quarter"), ("0.5", "again-half"), ("1", "again")]),
        (SHARES.replace("training_share: 0.5", "tokenizer: {bpe: 1024}").replace("training_share: 0.25", "tokenizer: {bpe: 2048}"),
         "vocabulary", [("512", "again"), ("1,024", "again-half"), ("2,048", "again-quarter")]),
    ],
)  # fmt: skip
def test_a_sweep_is_found(tmp_path, arms, name, rows):
    study, store = made(tmp_path, HEAD + arms)
    results = results_table(study, store)
    (table,) = sweep_tables(results, NATS)
    assert table.columns[0].label == name and [(row.cells[0].text, row.cells[1].text) for row in table.rows] == rows
    gains = {result.name: result.seeds.mean for result in results if result.seeds}
    assert all(row.cells[3].value == gains[row.cells[1].text] for row in table.rows)
    (bits,) = sweep_tables(results, BITS)
    for row in bits.rows:
        one = next(result for result in results if result.name == row.cells[1].text)
        assert row.cells[3].value == pytest.approx(one.pairing.gain_bits_per_byte, abs=1e-12)
    assert [row[1][0] for row in Reader(page(study, store)).tables["sweep-0"][1:]] == [arm for _, arm in rows]


def test_two_values_are_no_sweep(tmp_path):
    assert sweep_tables(results_table(*made(tmp_path, HEAD + PASSES.replace("  three: {schedule: (1)x3 (2)x3}\n", ""))), NATS) == []
