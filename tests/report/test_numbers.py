"""Numbers as readers see them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.report import numbers

M, N = numbers.MINUS, numbers.NONE


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        (numbers.fixed, 3.56204, "3.5620"), (numbers.fixed, -0.5, M + "0.5000"), (numbers.fixed, None, N),
        (numbers.signed, 0.05, "+0.0500"), (numbers.signed, -0.0231, M + "0.0231"), (numbers.signed, 0.00001, "0.0000"),
        (numbers.signed, -0.00001, "0.0000"), (numbers.signed, None, N),
        (numbers.human, 7, "7"), (numbers.human, 999, "999"), (numbers.human, 999.6, "1.00k"), (numbers.human, 1_180_800, "1.18M"),
        (numbers.human, 217_089_024, "217M"), (numbers.human, 46_913_888, "46.9M"), (numbers.human, 999_960, "1.00M"),
        (numbers.human, 0, "0"),
        (numbers.human, 12.5, "12.5"), (numbers.human, None, N),
        (numbers.tick, 20_000, "20k"), (numbers.tick, 0, "0"), (numbers.tick, 1_500_000, "1.5M"),
        (numbers.tick, 2e10, "2e10"), (numbers.tick, 0.5, "0.5"),
        (numbers.exact, 1_180_800, "1,180,800"), (numbers.exact, 2.0, "2"), (numbers.exact, 2.5, "2.5"), (numbers.exact, -3, M + "3"),
        (numbers.size, 512, "512 B"), (numbers.size, 2048, "2.00 KiB"), (numbers.size, 5.5 * 2**30, "5.50 GiB"),
        (numbers.size, 1023.9 * 2**10, "1.00 MiB"),
        (numbers.power, 1.0846e17, "1.08e17"), (numbers.power, 0, "0"),
        (numbers.depth, 8.0, "8"), (numbers.depth, 12.5, "12.5"),
        (numbers.times, 1.0, "1×"), (numbers.times, 1.0004, "1.00×"), (numbers.times, 1.884, "1.88×"),
        (numbers.duration, 44.4, "44 s"), (numbers.duration, 200, "3 min 20 s"),
        (numbers.duration, 7500, "2 h 5 min"), (numbers.duration, 3600, "1 h"),
    ],
)  # fmt: skip
def test_form(form, value, text):
    assert form(value) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0.03, 0.07, "+0.030 to +0.070"), (-0.0001, 0.02, "−0.0001 to +0.0200"), (-0.02, 0.00004, "−0.02000 to +0.00004"),
     (0, 0.02, "0.000 to +0.020"), (-1e-300, 0.5, "0.00000000000 to +0.50000000000")],
)  # fmt: skip
def test_rounding_moves_no_end_of_an_interval_to_zero(low, high, text):
    assert numbers.interval(low, high, 3) == text


@given(st.floats(1, 1e17))
def test_a_rounded_count_keeps_three_digits(value):
    text = numbers.human(value)
    unit = text.lstrip("0123456789.")
    back = float(text.removesuffix(unit)) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}[unit]
    assert (abs(back / value - 1) < 0.0051 and len(text.removesuffix(unit)) <= 5) or value < 1000


def test_lists_are_sentences():
    assert numbers.listed([]) == ""
    assert numbers.listed(["a"]) == "a"
    assert numbers.listed(["a", "b"]) == "a and b"
    assert numbers.listed(["a", "b", "c"]) == "a, b and c"
    assert numbers.listed(list("abcdef"), 4) == "a, b, c and 3 more"
    assert numbers.several(1, "run") == "1 run" and numbers.several(1200, "run") == "1,200 runs"
