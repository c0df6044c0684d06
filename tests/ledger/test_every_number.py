"""Costs with every number of passes, from a few of them: those of evaluating each."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ostinato.ledger.account import _forward
from ostinato.ledger.every_number import at_every_number
from ostinato.ledger.flops import TRAINER
from ostinato.ledger.inventory import inventory
from ostinato.study.derive import pass_groups
from ostinato.study.draws import always
from ostinato.study.truncation import without_gradient


@pytest.mark.parametrize("backprop", [None, 1, 3, 6, "half"])
@pytest.mark.parametrize(("schedule", "inject"), [
    ("1 (2..3)x{r} 4", "linear"),
    ("1..2 2x{r} 3:attn 4", "linear"),
    ("1x{r} 2x2 (3..4)x{r}", "linear"),
    ("(1..3)x{r} 4", "add"),
    ("1 2:attn (2:mlp 3)x{r} 4", "none"),
])  # fmt: skip
def test_they_are_those_of_each_number(small_model, schedule, inject, backprop):
    model = small_model(layers=4, schedule=schedule, inject=inject, passes={"uniform": (1, 24)}, backprop=backprop)
    rows, asked = inventory(model, 50, 16), []

    def of(passes):
        asked.append(passes)
        one = always(model, passes)
        forward, cut = _forward(one, rows, 16, TRAINER), without_gradient(one)
        begins = sum(group.passes for group in pass_groups(one))
        return sum((flops if index in cut else 3 * flops for index, flops in enumerate(forward)), Fraction()), Fraction(begins)

    found = at_every_number(model, range(1, 25), of)
    assert len(asked) <= 12 and found == {passes: of(passes) for passes in range(1, 25)}
