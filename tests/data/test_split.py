from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ostinato.data.split import _BEYOND, _LARGEST, split, split_into
from ostinato.errors import DataError


def digests(contents) -> np.ndarray:
    raw = b"".join(hashlib.sha256(str(content).encode()).digest()[:16] for content in contents)
    return np.frombuffer(raw, ">u8").astype(np.uint64).reshape(-1, 2)


def test_shares_are_met_and_every_document_is_in_one_part():
    sizes = np.random.Generator(np.random.Philox(1)).integers(50, 5000, 2000)
    part_of, copies = split(digests(range(2000)), sizes, 0.1, 0.05)
    share = np.bincount(part_of, weights=sizes) / sizes.sum()
    assert share == pytest.approx([0.85, 0.1, 0.05], abs=0.005) and copies == 0


def test_the_split_depends_on_content_not_on_order_or_neighbours():
    sizes = np.full(500, 100)
    first, _ = split(digests(range(500)), sizes, 0.1, 0.1)
    order = np.random.Generator(np.random.Philox(2)).permutation(500)
    again, _ = split(digests(order), sizes, 0.1, 0.1)
    assert (again == first[order]).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=80), st.floats(0.01, 0.49), st.floats(0.01, 0.49))
def test_copies_are_never_in_two_parts_and_no_part_is_empty(contents, validation, held_out):
    sizes = np.array([10 + 37 * content % 500 for content in contents])
    if len(set(contents)) < 3:
        with pytest.raises(DataError, match="different document"):
            split(digests(contents), sizes, validation, held_out)
        return
    part_of, copies = split(digests(contents), sizes, validation, held_out)
    assert len({(content, part) for content, part in zip(contents, part_of, strict=True)}) == len(set(contents))
    assert set(part_of.tolist()) == {0, 1, 2}
    assert copies == len(contents) - len(set(contents))


def test_one_long_document_does_not_become_most_of_a_small_part():
    sizes = np.full(400, 100)
    sizes[::10] = 3000  # 40 long ones hold three quarters of the text
    part_of, _ = split(digests(range(400)), sizes, 0.05, 0.05)
    for part in (1, 2):
        chosen = sizes[part_of == part]
        assert chosen.max() <= chosen.sum() / 4 and chosen.sum() == pytest.approx(0.05 * sizes.sum(), rel=0.25)


def test_books_of_like_length_still_fill_every_part():
    part_of, _ = split(digests(range(5)), np.array([100, 110, 120, 130, 140]), 0.05, 0.05)
    assert sorted(np.bincount(part_of).tolist()) == [1, 1, 3]


def in_memory(digests: np.ndarray, sizes: np.ndarray, validation: float, held_out: float) -> np.ndarray:
    """The naive twin: all different documents sorted at once."""
    _, group_of, copies = np.unique(digests, axis=0, return_inverse=True, return_counts=True)
    group_of = group_of.reshape(-1)
    group_sizes = np.bincount(group_of, weights=sizes).astype(np.int64)
    part_of = np.zeros(len(copies), np.uint8)
    for part, share, others in ((2, held_out, 2), (1, validation, 1)):
        fill(part_of, group_sizes, part, share * int(group_sizes.sum()), others)
    return part_of[group_of]


def fill(part_of: np.ndarray, sizes: np.ndarray, part: int, goal: float, others: int) -> None:
    taken, spare = 0, int((part_of == 0).sum()) - others
    for largest in _LARGEST:
        for group in np.flatnonzero((part_of == 0) & (sizes <= largest * goal)).tolist():
            if taken >= goal or not spare:
                return
            if taken + sizes[group] <= goal * _BEYOND:
                part_of[group] = part
                taken += int(sizes[group])
                spare -= 1
    if not taken:
        free = np.flatnonzero(part_of == 0)
        part_of[free[np.argmin(sizes[free])]] = part


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from([1, 2, 900])), min_size=3, max_size=120),
    st.floats(0.01, 0.49), st.floats(0.01, 0.49), st.sampled_from([1, 2, 8, 64]), st.integers(1, 50),
)  # fmt: skip
def test_stretch_by_stretch_it_is_what_sorting_all_at_once_gives(monkeypatch, contents, validation, held_out, stretch, chunk):
    names = [f"{name} {size}" for name, size in contents]
    if len(set(names)) < 3:
        return
    hashes = digests(names)
    if stretch == 1:
        hashes[:, 0] >>= np.uint64(40)  # all in one stretch, and many that differ in their second half alone
    sizes = np.array([size for _, size in contents], np.int64)
    monkeypatch.setattr("ostinato.data.split.STRETCH", stretch)
    part_of = np.zeros(len(sizes), np.uint8)
    chunks = [(hashes[start : start + chunk], sizes[start : start + chunk]) for start in range(0, len(sizes), chunk)]
    copies = split_into(part_of, lambda: iter(chunks), validation, held_out)
    assert (part_of == in_memory(hashes, sizes, validation, held_out)).all() and copies == len(names) - len(set(names))
