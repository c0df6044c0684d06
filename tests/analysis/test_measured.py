"""Lens, skips, depths and states of a stored study, by class: against means that are taken by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.analysis import depths, lens, skips, states
from ostinato.analysis.applications import called, first_of, pass_ends
from ostinato.analysis.depths import exit_rule
from ostinato.analysis.measured import ALL, class_sums, newest, otherwise
from ostinato.data.classes import TokenClasses
from ostinato.errors import OstinatoError, StoreError, StudyError
from ostinato.schedule import parse

MATCH = np.array([-1, 0, 1, 8, -1] * 4)


def labels(text, layers, passes=None):
    return [{"index": a.index, "layer": a.layer, "part": a.part, "pass_": a.pass_} for a in parse(text, layers).applications(passes)]


@pytest.fixture
def written(bench, store, targets):
    """Runs of `plain` and `twice`, and classes of their targets; write(arm, seed, name, columns of the first M targets, about)."""
    for arm in ("plain", "twice"):
        for seed in (1, 2):
            bench.run(arm, seed, 2.0)
    at = np.arange(20)
    store.write_classes(targets.id, "d" * 64, TokenClasses(MATCH.astype(np.int8), MATCH.astype(np.int8), at, at, at))

    def write(arm, seed, name, columns, about, tokens=2048, targets_id=targets.id, evaluation=None):
        folder = store.runs_of(bench.study)[arm, seed]
        about = {"evaluation": evaluation or folder.evaluation, **about}
        folder.write_measure(name, {"target_id": targets_id, "targets": 16}, tokens, pa.table(columns), about)

    return write


def test_the_lens_by_class(written, study, store):
    target, draw = np.array([0, 1, 2, 3, 6, 8]), np.random.default_rng(0)
    names, said = ["input", "after_0", "after_1", "after_2", "after_3"], {"applications": labels("1..2 1..2", 2)}
    values = {seed: draw.random((5, 6)).astype(np.float32) for seed in (1, 2)}
    for seed, rows in values.items():
        written("twice", seed, "lens", {"target": target, **dict(zip(names, rows, strict=True))}, said)
    (found,) = lens.lenses(study, store)
    assert (found.arm, found.seeds, found.tokens, found.first_pass, found.middle(), found.middle(2)) == ("twice", (1, 2), 2048, 1, 0, 1)
    assert found.sums.classes == (ALL, "new", "tok-repeat", "bigram-repeat", "k ≥ 8")
    assert found.sums.count_K.tolist() == [12, 2, 4, 6, 4]
    mean = np.mean([values[1], values[2]], 0)
    for name, places in ((ALL, [0, 1, 2, 3, 4, 5]), ("new", [0]), ("tok-repeat", [1, 4]), ("bigram-repeat", [2, 3, 5]), ("k ≥ 8", [3, 5])):
        assert found.curve(name) == pytest.approx(mean[:, places].mean(1), rel=1e-6)
    assert found.after(None, "new") == pytest.approx(mean[0, 0], rel=1e-6)
    (rare,) = lens.lenses(study, store, "k = 32")
    assert rare.curve("k = 32") == () and rare.after(1, "k = 32") is None and rare.resolves("k = 32") is None


def test_runs_are_read_on_the_same_targets(written, study, store):
    """One run measured anew on fewer targets stands in nobody's place: it is named where that is all it has."""
    said = {"applications": labels("1..2", 2)}
    columns = {name: [1.0, 2.0] for name in ("input", "after_0", "after_1")}
    for arm, seed in (("plain", 1), ("plain", 2), ("twice", 1)):
        written(arm, seed, "lens", {"target": [0, 1], **columns}, said)
    folders, less = store.runs_of(study), {"target_id": "other", "targets": 4}
    for arm, seed in (("plain", 1), ("twice", 2)):
        folder = folders[arm, seed]
        folder.write_measure("lens", less, 2048, pa.table({"target": [0], **{name: [9.0] for name in columns}}),
                             {"evaluation": folder.evaluation, **said})  # fmt: skip
    found = {one.arm: one for one in lens.lenses(study, store)}
    assert found["plain"].seeds == (1, 2) and found["twice"].seeds == (1,) and found["plain"].curve(ALL) == (1.5, 1.5, 1.5)
    assert otherwise(study, store, "lens") == ["twice, seed 2"]
    asked = study.model_copy(update={"measure": study.measure.model_copy(update={"targets": 4})})
    assert dict(newest(asked, store, "lens")).keys() <= {"plain", "twice"}


def test_where_the_lens_comes_near_the_loss_and_stays(written, study, store):
    columns = {"target": [3], "input": [9.0], "after_0": [1.05], "after_1": [2.0], "after_2": [1.08], "after_3": [1.0]}
    written("twice", 1, "lens", columns, {"applications": labels("1..2 1..2", 2)})
    (found,) = lens.lenses(study, store)
    assert (found.resolves("k ≥ 8"), found.resolves("k ≥ 8", 0.01), found.resolves("k ≥ 8", 5)) == (2, 3, 0)


def test_what_an_application_is_worth(written, study, store):
    columns = {"target": [0, 3], "whole": [2.0, 1.0], "without_0": [2.5, 3.0], "without_1": [1.5, 1.0], "without_pass_1": [4.0, 4.0],
               "without_pass_2": [2.0, 1.0]}  # fmt: skip
    written("twice", 1, "skips", columns, {"applications": labels("1 1:attn", 1)})
    written("plain", 1, "skips", {"target": [0], "whole": [1.0], "without_0": [1.25]}, {"applications": labels("1", 1)})
    plain, found = skips.skips(study, store)
    assert found.applications == {"without_0": "1", "without_1": "1:attn, pass 2"}
    assert found.passes == {"without_pass_1": "pass 1", "without_pass_2": "pass 2"} and plain.passes == {}
    assert found.worth("without_0") == pytest.approx(1.25) and found.worth("without_0", "bigram-repeat") == pytest.approx(2)
    assert found.worth("without_1", "new") == pytest.approx(-0.5) and found.worth("without_pass_2") == 0
    assert found.worth("without_0", "tok-repeat") is None and plain.worth("without_0") == 0.25


def test_depths_and_exit_rules_by_class(written, study, store):
    nats = np.array([[4.0, 3, 2], [3, 2, 2], [2, 2.5, 1], [2, 1, 1]], np.float32)
    kl = np.array([[0.5, 0.05, 0.2], [0.05, 0.5, 0.2], [0.01, 0.5, 0.2]], np.float32)
    columns = {f"nats_{r}": row for r, row in enumerate(nats, 1)} | {f"kl_{r}": row for r, row in enumerate(kl, 2)}
    written("twice", 1, "depths", {"target": [0, 4, 3], **columns}, {"trained_passes": 2, "applications": [2, 4, 6, 8]})
    (found,) = depths.depths(study, store, thresholds=(0.1, 0.02))
    assert (found.trained, list(found.numbers), found.curve()) == (2, [1, 2, 3, 4], pytest.approx(nats.mean(1)))
    assert found.moved(2) == pytest.approx(0.25) and found.curve("bigram-repeat") == pytest.approx(nats[:, 2])
    first, second = found.exits()  # 0.1: the first target leaves after 3 passes, the second after 2, the third never
    assert (first.threshold, first.passes, first.nats) == (0.1, pytest.approx((3 + 2 + 4) / 3), pytest.approx((2 + 2 + 1) / 3))
    assert (second.passes, second.nats) == (pytest.approx(4), pytest.approx((2 + 1 + 1) / 3))
    assert found.exits("new")[0] == depths.Exit(0.1, pytest.approx(2.5), pytest.approx(2))
    assert found.exits("tok-repeat")[0] == depths.Exit(0.1, None, None)


@given(st.integers(2, 5).flatmap(lambda r: st.lists(st.tuples(*[st.floats(0, 1)] * (2 * r - 1)), min_size=1, max_size=6)))
def test_an_exit_rule_is_a_loop_over_passes(rows):
    numbers = (len(rows[0]) + 1) // 2
    table = np.array(rows).T
    nats, kl = table[:numbers], table[numbers:]
    for threshold in (0.0, 0.3, 2.0):
        passes, found = exit_rule(nats, kl, threshold)
        for place in range(len(rows)):
            r = 2
            while r < numbers and not kl[r - 2, place] < threshold:
                r += 1
            assert passes[place] == r and found[place] == nats[r - 1, place]


def test_exit_rules_that_cannot_be_are_refused():
    with pytest.raises(OstinatoError, match="threshold of -1"):
        exit_rule(np.ones((2, 3)), np.ones((1, 3)), -1)
    with pytest.raises(OstinatoError, match="every pass but the first"):
        exit_rule(np.ones((2, 3)), np.ones((2, 3)), 1)


def test_states_over_seeds(written, study, store):
    def rows(update, positions):
        return {
            "passes": [2, 2, 4, 4], "application": [0, 1, 0, 1], "layer": [1] * 4, "part": ["both"] * 4, "pass": [1, 2, 1, 2],
            "positions": [positions] * 4, "size": [2.0 * positions] * 4, "update": [update * positions] * 4,
            "cosine": pa.array([None, 0.5 * positions] * 2), "change": pa.array([None, 0.1 * positions] * 2),
            "distance": [0.2 * positions, 0.0] * 2, "rank": [update, 4.0, 5.0, 6.0],
        }  # fmt: skip

    for seed, update, positions in ((1, 1.0, 10), (2, 4.0, 20)):
        written("twice", seed, "states", rows(update, positions), {"trained_passes": 2})
    (found,) = states.states(study, store)
    assert (found.seeds, found.trained, len(found.applications), len(found.deeper)) == ((1, 2), 2, 2, 2)
    first, second = found.applications
    assert (first.name, first.update, first.cosine, first.change, first.rank) == ("1", pytest.approx(3), None, None, 2.5)
    assert (second.name, second.cosine, second.distance, second.size) == ("1, pass 2", pytest.approx(0.5), 0, 2)


def test_only_the_furthest_point_and_the_windows_of_the_study_count(written, study, store):
    columns, said = {"target": [0], "input": [1.0], "after_0": [1.0]}, {"applications": labels("1", 1)}
    written("twice", 1, "lens", columns, said, tokens=1024)
    written("twice", 2, "lens", columns, said, evaluation="another")
    (found,) = lens.lenses(study, store)
    assert (found.seeds, found.tokens) == ((1,), 1024)
    written("twice", 2, "lens", columns, said)
    (found,) = lens.lenses(study, store)
    assert (found.seeds, found.tokens) == ((2,), 2048)
    written("twice", 1, "lens", columns, said, targets_id="u" * 64)  # of other targets: seeds do not add up
    (found,) = lens.lenses(study, store)
    assert found.seeds == (1,) and found.sums.classes == (ALL,)  # whose classes are not stored


def test_an_unknown_class_is_refused(written, study, store):
    with pytest.raises(StudyError, match="no token class 'newer'"):
        lens.lenses(study, store, "newer")


def test_sums_of_other_columns_do_not_add():
    one, other = (class_sums({name: np.ones(2)}, {ALL: np.ones(2, bool)}) for name in ("a", "b"))
    assert (one + one).mean("a") == 1 and (one + one).count_K.tolist() == [4]
    with pytest.raises(StoreError, match="other columns"):
        one + other


def test_which_application_is_meant():
    assert pass_ends(labels("1..4", 4)) == {1: 3} and pass_ends(labels("1..4 1..4", 4)) == {1: 3, 2: 7}
    assert pass_ends(labels("1..2 (3..4)x{r} 5", 5, 3)) == {1: 3, 2: 5, 3: 8}  # what comes behind the last pass is of pass 1
    assert pass_ends(labels("[4,2,1,1]", 4)) == {1: 0, 2: 1, 3: 2, 4: 7}
    assert first_of(labels("2 1 2", 3), 2) == 0 and first_of(labels("2 1 2", 3), 3) is None
    assert [called(one) for one in labels("1 2 1:attn 2:mlp", 2)] == ["1", "2", "1:attn, pass 2", "2:mlp, pass 2"]
