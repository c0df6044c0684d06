"""Case 22: a schedule that makes no sense is an error with its column, the rule it breaks and a next step; nothing hangs."""

from __future__ import annotations

import time

import pytest

from ostinato.errors import OstinatoError, ScheduleError
from ostinato.schedule import parse

MILLION = 10**6


@pytest.mark.parametrize(
    ("text", "column", "rule"),
    [
        ("1..8 9", 6, "numbered from 1 to 8"),
        ("1..9", 4, "numbered from 1 to 8"),
        ("0..3", 1, "numbered from 1 to 8"),
        ("9" * MILLION, 1, "numbered from 1 to 8"),
        ("(1..3)x0", 8, "at least once"),
        ("[1,0,1,1,1,1,1,1]", 4, "at least once"),
        ("1..", 4, "whole numbers"),
        ("..8", 1, "two ends|first..last"),
        ("1..2..3", 5, "first..last"),
        ("8..1", 4, "upward"),
        ("1..3x2", 5, "in parentheses"),
        ("1x", 3, "whole numbers"),
        ("1x-2", 3, "whole numbers"),
        ("1x2.5", 4, "first..last"),
        ("1x2x3", 4, "one count"),
        ("1:attn:mlp", 7, "once"),
        ("1:moe", 2, ":attn and :mlp"),
        ("(1:attn 2):mlp", 11, "sublayer left to run"),
        ("1x{n}", 3, "{r}"),
        ("x3", 1, "follow their term"),
        ("(1..3) x3", 8, "follow their term"),
        ("1-8", 2, "separated by spaces"),
        ("1..4,1..4", 5, "separated by spaces"),
        ("1(2 3)x2", 2, "separated by spaces"),
        ("1²", 2, "separated by spaces"),
        ("1\x008", 2, "separated by spaces"),
        ("(1..3", 1, "has its"),
        ("1 2)", 4, "has its"),
        ("1 ()", 3, "at least one layer"),
        ("", 1, "at least one layer"),
        (" \n\t ", 1, "at least one layer"),
        ("[1,1", 1, "[4,2,1,1]"),
        ("[1,1]", 5, "one count for each"),
        ("[1,1,1,1,1,1,1,1,1]", 18, "one count for each"),
        ("[1,1,1,1,1,1,1,1] 4", 19, "whole schedule"),
        ("1..8 [1,1,1,1,1,1,1,1]", 6, "whole schedule"),
        (f"(1..8)x{MILLION}", 8, "at most 4,096"),
        ("1 (1..8)x600", 3, "at most 4,096"),
        ("1 " * MILLION, 2 * 4096 + 1, "at most 4,096"),
        ("((((((1x16)x16)x16)x16)x16)x16)", 4, "at most 4,096"),
        ("[" + "4096," * 7 + "1]", 7, "at most 4,096"),
        ("1x" + "9" * MILLION, 3, "at most 4,096"),
        ("(" * MILLION + "1" + ")" * MILLION, 33, "32 deep"),
        ("(" * 33 + "1" + ")" * 33, 33, "32 deep"),
    ],
)
def test_the_error_has_the_column_the_rule_and_a_next_step(text, column, rule):
    start = time.perf_counter()
    with pytest.raises(ScheduleError) as error:
        parse(text, 8)
    assert time.perf_counter() - start < 1
    found = error.value
    assert isinstance(found, OstinatoError)
    assert found.column == column
    assert any(words in found.rule for words in rule.split("|"))
    assert found.fix and f"column {column}" in str(found) and len(str(found)) < 600


def test_a_million_free_passes_are_counted_not_built():
    start = time.perf_counter()
    with pytest.raises(ScheduleError, match="at most 4,096"):
        parse("1 (2..7)x{r} 8", 8).applications(MILLION)
    nested = parse("(" * 32 + "1" + ")x{r}" * 32, 8)
    with pytest.raises(ScheduleError, match="at most 4,096"):
        nested.applications(4096)
    assert time.perf_counter() - start < 1


def test_the_largest_allowed_are_allowed():
    assert len(parse("(1..8)x512", 8).applications()) == 4096
    assert len(parse("(" * 32 + "1" + ")x1" * 32, 8).applications()) == 1
