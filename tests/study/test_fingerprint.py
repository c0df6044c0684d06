"""A run's fingerprint changes with everything that its numbers follow from, and with nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ostinato.errors import ScheduleError
from ostinato.schedule import parse
from ostinato.study.derive import arm_applications
from ostinato.study.fingerprint import at_every_number, fingerprint, run_fingerprint
from ostinato.study.records import Arm, Data, Model, Recipe

BASE = {"layers": 4, "d_model": 64, "heads": 4}
ARM = Arm(name="plain", model=Model(**BASE), recipe=Recipe(), data=Data(), seeds=(1,))
PLAIN = run_fingerprint(ARM, 1, "data")

OTHER_MODEL = {
    "family": "loop2",
    "layers": 5,
    "d_model": 128,
    "heads": 2,
    "kv_heads": 2,
    "head_dim": 8,
    "mlp": {"hidden": 8},
    "norm": {"eps": 1e-5},
    "positions": "alibi",
    "rope_base": 5000,
    "qk_norm": "plain",
    "attn_gate": "head",
    "windows": {"pattern": "SL", "short": 8},
    "value_embeddings": "all",
    "bigram_table": 16,
    "embedding_norm": True,
    "application_scalars": True,
    "softcap": 15,
    "tie_embeddings": False,
    "schedule": "1..4 4",
    "inject": "add",
    "h0": "noise",
    "pass_norm": True,
    "streams": 2,
    "tie": {"2:attn": "1:attn"},
    "residual_scaling": "unique",
    "init": {"std": 0.01},
}
OTHER_RECIPE = {
    "tokens": 400_000,
    "batch": 2048,
    "context": 64,
    "optimizer": "adamw",
    "lr": 0.01,
    "betas": (0.8, 0.95),
    "eps": 1e-9,
    "weight_decay": 0.1,
    "decay_to_zero": True,
    "groups": {"norm": {"lr": 1}},
    "muon": {"momentum": 0.9},
    "lr_schedule": {"decay": 0.4},
    "clip": 1.0,
    "dtype": "bfloat16",
}
OTHER_DATA = {"packing": {"packing": "best-fit"}, "document_mask": {"document_mask": True}, "buffer": {"packing": "best-fit", "buffer": 10}}


def with_model(**keys) -> Arm:
    return ARM.model_copy(update={"model": Model(**{**BASE, **keys})})


def with_recipe(**keys) -> Arm:
    return ARM.model_copy(update={"recipe": Recipe(**keys)})


def test_every_key_of_the_records_is_tried_here():
    assert set(OTHER_MODEL) == set(Model.model_fields) - {"passes", "backprop"}, "these are for a schedule with passes, see below"
    assert set(OTHER_RECIPE) == set(Recipe.model_fields) - {"micro_batch", "activation_checkpointing"}


@pytest.mark.parametrize("key", OTHER_MODEL)
def test_every_key_of_the_model_changes_it(key):
    assert run_fingerprint(with_model(**{key: OTHER_MODEL[key]}), 1, "data") != PLAIN


@pytest.mark.parametrize("key", OTHER_RECIPE)
def test_every_key_of_the_recipe_changes_it(key):
    assert run_fingerprint(with_recipe(**{key: OTHER_RECIPE[key]}), 1, "data") != PLAIN


@pytest.mark.parametrize("key", OTHER_DATA)
def test_what_of_the_data_shapes_training_changes_it(key):
    before = Data(**{name: value for name, value in OTHER_DATA[key].items() if name != key})
    prints = {run_fingerprint(ARM.model_copy(update={"data": data}), 1, "data") for data in (before, Data(**OTHER_DATA[key]))}
    assert len(prints) == 2


def test_seed_and_data_change_it():
    assert len({PLAIN, run_fingerprint(ARM, 2, "data"), run_fingerprint(ARM, 1, "other data")}) == 3


def test_passes_change_it():
    prints = {run_fingerprint(with_model(schedule="1 (2..3)x{r} 4", passes=passes), 1, "data") for passes in (1, 2, 3)}
    assert len(prints) == 3
    assert PLAIN in prints, "one pass is the plain stack"


DRAWN = [
    ("(1..2)x{r} (3..4)x2", "(1..2)x2 (3..4)x{r}", {"uniform": (1, 3)}),
    ("(1..2)x{r} 3 4", "1 2 (3..4)x{r}", {"poisson": 1}),
    ("(1..2)x{r} 3..4", "1..2 (3..4)x{r}", {"uniform": (1, 1)}),
    ("1x{r} 2x3 3 4", "1x3 2x{r} 3 4", {"uniform": (3, 3)}),
    ("(1x{r} 2)x{r} 3 4", "(1x{r} 2)x2 3 4", {"uniform": (2, 2)}),
]


@pytest.mark.parametrize(("one", "other", "draw"), DRAWN)
def test_schedules_that_are_equal_at_the_middle_of_a_draw_are_other_runs(one, other, draw):
    first, second = (with_model(schedule=text, passes=draw) for text in (one, other))
    assert arm_applications(first.model) == arm_applications(second.model)
    assert run_fingerprint(first, 1, "data") != run_fingerprint(second, 1, "data")


@pytest.mark.parametrize("keys", [
    {"schedule": "1 2 (3..4)x{r}"},
    {"schedule": "1..2 (3 4)x{r}"},
    {"backprop": 3},
    {"backprop": 7},
    {"passes": {"uniform": ("1", "3")}},
])  # fmt: skip
def test_ways_of_writing_the_same_draw_agree(keys):
    base = {"schedule": "1..2 (3..4)x{r}", "passes": {"uniform": (1, 3)}, "inject": "linear"}
    assert run_fingerprint(with_model(**base | keys), 1, "data") == run_fingerprint(with_model(**base), 1, "data")


def test_a_draw_is_known_by_its_range_and_by_what_is_cut_in_it():
    base = {"schedule": "1..2 (3..4)x{r}", "inject": "linear"}

    def prints(draw, *keys):
        return [run_fingerprint(with_model(**base, passes=draw, backprop=key), 1, "data") for key in keys]

    assert len(set(prints({"uniform": (1, 3)}, None, 1, 2, "half"))) == 4
    assert len(set(prints({"uniform": (3, 4)}, 2, "half"))) == 1, "of three passes and of four, half is two"
    assert len({prints(draw, None)[0] for draw in ({"uniform": (1, 3)}, {"uniform": (2, 2)}, {"poisson": 2}, 2)}) == 4


SUFFIXES = st.sampled_from(["x{r}", "x2", ""])
TERMS = st.recursive(st.sampled_from(["1", "2", "1..2", "2..3", "3:attn"]), lambda inner: st.builds(
    lambda terms, suffix: f"({' '.join(terms)}){suffix}", st.lists(inner, min_size=1, max_size=3), SUFFIXES))  # fmt: skip


@given(st.tuples(TERMS, TERMS, TERMS), st.tuples(TERMS, TERMS, TERMS))
def test_two_schedules_have_one_digest_where_they_have_the_same_applications_with_every_number_of_passes(one, other):
    def readable(texts):
        try:
            schedule = parse(" ".join(texts), 3)
            return schedule, [schedule.applications(passes if schedule.free else None) for passes in range(1, 6)]
        except ScheduleError:
            return None

    found = [readable(texts) for texts in (one, other)]
    assume(None not in found and all(schedule.free for schedule, _ in found))
    (first, mine), (second, theirs) = found
    assert (at_every_number(first, 5) == at_every_number(second, 5)) is (mine == theirs)
    assert at_every_number(parse(first.text, 3), 5) == at_every_number(first, 5)


def test_runs_of_before_keep_their_names():
    """Computed by the version before attn_gate, h0, pass_norm and inject: linear were keys: a new key at its default changes no name."""
    assert PLAIN == "33a99993945c9a8947621eef28474c78ae3c70aef7e14a188dc885fbb2b80ebf"
    looped = with_model(family="loop2", schedule="1..4 1..4", inject="add")
    assert run_fingerprint(looped, 2, "data") == "502c5a488f5be43e336317a68637f2c6700dce47854e63005782ac01145234bb"
    assert run_fingerprint(with_model(attn_gate="none", h0="input", pass_norm=False, streams=1, backprop=None), 1, "data") == PLAIN


def test_memory_only_keys_do_not_change_it():
    assert run_fingerprint(with_recipe(micro_batch=128, activation_checkpointing=True), 1, "data") == PLAIN


def test_a_run_made_again_is_another_run_and_none_keeps_its_name():
    prints = {word: run_fingerprint(ARM.model_copy(update={"again": word}), 1, "data") for word in (None, "threads", "checkpointing")}
    assert prints[None] == PLAIN and len(set(prints.values())) == 3


@settings(max_examples=50)
@given(st.text(max_size=20), st.text(max_size=20), st.lists(st.integers(0, 99), max_size=4), st.text(max_size=5))
def test_names_notes_and_the_other_seeds_never_change_it(name, note, seeds, contingent):
    renamed = ARM.model_copy(update={"name": name, "note": note, "seeds": tuple(seeds), "contingent": contingent, "seed_names": {1: name}})
    assert run_fingerprint(renamed, 1, "data") == PLAIN


@pytest.mark.parametrize(
    "keys",
    [
        {"schedule": "1..4"},
        {"schedule": "1 2 3..4"},
        {"schedule": [1, 1, 1, 1]},
        {"layers": ["gqa"] * 4},
        {"layers": "4 x gqa"},
        {"kv_heads": 4},
        {"head_dim": 16},
        {"mlp": {"ratio": "4.0"}},
        {"mlp": {"hidden": 256}},
        {"family": "llama", "positions": "rope"},
    ],
)
def test_ways_of_writing_the_same_model_agree(keys):
    assert run_fingerprint(with_model(**keys), 1, "data") == PLAIN


def test_ties_agree_however_they_are_written():
    prints = {
        run_fingerprint(with_model(tie=tie), 1, "data")
        for tie in ({"3..4:mlp": "1..2:mlp"}, {"4:mlp": "2:mlp", "3:mlp": "1:mlp"}, {"4:mlp": "2:mlp", "3:mlp": "1..1:mlp"})
    }
    assert len(prints) == 1


def test_the_order_of_keys_does_not_matter_and_nan_has_no_form():
    assert fingerprint({"a": 1, "b": [2, {"c": 3, "d": 4}]}) == fingerprint({"b": [2, {"d": 4, "c": 3}], "a": 1})
    assert fingerprint(ARM) == fingerprint(ARM.model_dump(mode="json"))
    with pytest.raises(ValueError):
        fingerprint({"a": float("nan")})


def test_another_process_agrees():
    code = (
        "from ostinato.study.records import *; from ostinato.study import run_fingerprint;"
        "arm = Arm(name='x', model=Model(layers=4, d_model=64, heads=4), recipe=Recipe(), data=Data(), seeds=(1,));"
        "print(run_fingerprint(arm, 1, 'data'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "77", "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.strip() == PLAIN


def test_residual_scaling_by_a_depth():
    looped = {"schedule": "(1..4)x3"}
    by_name, by_number = (run_fingerprint(with_model(**looped, residual_scaling=depth), 1, "data") for depth in ("effective", 12))
    assert by_name == by_number != run_fingerprint(with_model(**looped, residual_scaling=11), 1, "data")
    plain = run_fingerprint(with_model(residual_scaling="effective"), 1, "data")
    assert plain != run_fingerprint(with_model(residual_scaling=12), 1, "data")
