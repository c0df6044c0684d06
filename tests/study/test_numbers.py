"""Numbers as people write them, and nothing else."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.study.numbers import LARGEST, count, real, switch

SUFFIXES = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500k", 500_000),
        ("0.5M", 500_000),
        ("8Ki", 8192),
        ("3e4", 30_000),
        ("012", 12),
        ("1_000", 1000),
        (" 7 ", 7),
        ("+7", 7),
        ("1.5k", 1500),
        ("0.5B", 500_000_000),
        ("2 k", 2000),
        ("0", 0),
        ("-3", -3),
        ("5.", 5),
        ("1e0", 1),
        ("9223372036854775807", LARGEST),
        (4, 4),
        (4.0, 4),
    ],
)
def test_counts_are_read_as_they_are_meant(text, value):
    assert count(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("1e-3", 1e-3), (".5", 0.5), ("3e4", 3e4), ("0.02", 0.02), ("1e-10", 1e-10), ("012.5", 12.5), ("2E-2", 0.02)]
)
def test_reals_are_read_as_they_are_meant(text, value):
    assert real(text) == value


NO_NUMBERS = [
    "",
    "no",
    "yes",
    "1:30",
    "1e",
    "e3",
    "1__0",
    "_1",
    "1_",
    "0x10",
    "0o7",
    "nan",
    "NaN",
    "inf",
    "-.inf",
    ".",
    "-",
    "1,000",
    "1 000",
    "12x",
    "k",
    "½",
    "١٢",
    "1e5e5",
    "1.2.3",
    "--1",
    "1k k",
    "9" * 1000,
    "1e99999",
    None,
    True,
    False,
]


@pytest.mark.parametrize("text", NO_NUMBERS)
@pytest.mark.parametrize("read", [count, real])
def test_anything_else_is_refused_with_the_rule(text, read):
    with pytest.raises(ValueError, match="not a number"):
        read(text)


@pytest.mark.parametrize("text", ["1.5", "1e-3", "0.0001k"])
def test_a_count_is_whole(text):
    with pytest.raises(ValueError, match="whole"):
        count(text)


@pytest.mark.parametrize("text", ["1e19", "9223372036854775808", "1e9999", "10000000000G", "-1e30"])
def test_a_count_fits_64_bits(text):
    with pytest.raises(ValueError, match="larger"):
        count(text)


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1e-400"])
def test_a_real_is_finite_and_does_not_vanish(text):
    with pytest.raises(ValueError, match="float"):
        real(text)


@given(st.integers(-(10**15), 10**15), st.sampled_from(["", *SUFFIXES]))
def test_every_whole_number_with_every_suffix_is_exact(number, suffix):
    expected = number * SUFFIXES.get(suffix, 1)
    if abs(expected) <= LARGEST:
        assert count(f"{number}{suffix}") == expected
        assert count(f"{number:_}{suffix}") == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_reads_back_as_itself(number):
    assert real(repr(number)) == number


@given(st.floats(allow_nan=True))
def test_floats_that_are_no_numbers_are_refused(number):
    if not math.isfinite(number):
        with pytest.raises(ValueError):
            real(number)


@settings(max_examples=300)
@given(st.text(max_size=80))
def test_no_text_does_anything_but_give_a_number_or_say_why_not(text):
    for read in (count, real):
        try:
            value = read(text)
        except ValueError as error:
            assert str(error)
        else:
            assert math.isfinite(value)


@pytest.mark.parametrize(("text", "value"), [("yes", True), ("No", False), ("TRUE", True), ("off", False), ("on", True), (False, False)])
def test_switches(text, value):
    assert switch(text) is value


@pytest.mark.parametrize("text", ["maybe", "1", "0", "y", "", None, 1])
def test_a_switch_is_yes_or_no(text):
    with pytest.raises(ValueError, match="neither yes nor no"):
        switch(text)
