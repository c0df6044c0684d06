"""The inventory of layers, as people write it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.study.layers import MOST_LAYERS, layer_kinds


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (8, ("gqa",) * 8),
        ("8", ("gqa",) * 8),
        ("10 x gqa", ("gqa",) * 10),
        ("2 x (gdn gdn gqa)", ("gdn", "gdn", "gqa") * 2),
        ("2x(gdn gqa) gdn", ("gdn", "gqa", "gdn", "gqa", "gdn")),
        ("3 × gdn", ("gdn",) * 3),
        ("2 x (gdn 2 x (gqa gdn))", ("gdn", "gqa", "gdn", "gqa", "gdn") * 2),
        (["gdn", "gqa"], ("gdn", "gqa")),
        (["2 x gdn", "gqa"], ("gdn", "gdn", "gqa")),
    ],
)
def test_all_ways_of_writing(text, kinds):
    assert layer_kinds(text) == kinds


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "",
        [],
        "2 x",
        "2 x (gdn",
        "gdn)",
        "()",
        "(gdn) 3",
        "-1",
        "1.5",
        "2 x ) gdn",
        "0 x gdn",
        "4097",
        "9" * 50,
        "99999 x gdn",
        "64 x (65 x gdn)",
        "9 x (9 x (9 x (9 x gdn)))",
        "gdn; gqa",
    ],
)
def test_what_makes_no_inventory_is_refused(text):
    with pytest.raises(ValueError):
        layer_kinds(text)


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["gdn", "gqa"])), min_size=1, max_size=8), st.integers(1, 4))
def test_repetitions_multiply(terms, times):
    inner = [kind for number, kind in terms for _ in range(number)]
    assert layer_kinds(f"{times} x ({' '.join(f'{number} x {kind}' for number, kind in terms)})") == tuple(inner * times)


@given(st.text(alphabet="0123456789x× ()gdnqa", max_size=40))
def test_no_text_hangs_or_passes_the_limit(text):
    try:
        assert 1 <= len(layer_kinds(text)) <= MOST_LAYERS
    except ValueError as error:
        assert str(error)
