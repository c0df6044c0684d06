"""Keys over keys: the upper one wins at every depth, rivals put each other away, a null puts a key back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ostinato.study.families import with_family
from ostinato.study.merge import merge, without_nulls
from ostinato.study.records import Mlp, Model

SECTIONS = st.recursive(
    st.dictionaries(st.sampled_from("ab"), st.integers(), max_size=2),
    lambda inner: st.builds(
        lambda values, sections: values | sections,
        st.dictionaries(st.sampled_from("ab"), st.integers(), max_size=2),
        st.dictionaries(st.sampled_from("cd"), inner, max_size=2),
    ),
    max_leaves=8,
)
"""Trees in which a key is always a value or always a section, as the shape of a study sees to."""


def test_every_depth():
    assert merge({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"c": 4}, "e": 5}) == {"a": {"b": 1, "c": 4}, "d": 3, "e": 5}


def test_rivals_put_each_other_away():
    assert merge({"mlp": {"ratio": 4}}, {"mlp": {"hidden": 9}}) == {"mlp": {"hidden": 9}}
    assert merge({"mlp": {"hidden": 9, "kind": "relu2"}}, {"mlp": {"ratio": 3}}) == {"mlp": {"kind": "relu2", "ratio": 3}}
    assert merge({"tokenizer": {"bpe": 300}}, {"tokenizer": {"file": "t.json"}}) == {"tokenizer": {"file": "t.json"}}
    assert merge({"hidden": 9}, {"hidden": 3, "ratio": 2}) == {"hidden": 3, "ratio": 2}, "both at once is for the checks to refuse"
    assert merge({"ratio": 4}, {"hidden": None}) == {"ratio": 4, "hidden": None}


@given(SECTIONS, SECTIONS, SECTIONS)
def test_laying_over_is_associative_and_changes_no_argument(lower, middle, upper):
    before = repr((lower, middle, upper))
    assert merge(merge(lower, middle), upper) == merge(lower, merge(middle, upper))
    assert repr((lower, middle, upper)) == before


@given(SECTIONS)
def test_nothing_laid_over_changes_nothing(section):
    assert merge(section, {}) == section
    assert merge({}, section) == section
    assert merge(section, section) == section


def test_nulls_go_at_every_depth():
    assert without_nulls({"a": None, "b": {"c": None, "d": 0}, "e": ""}) == {"b": {"d": 0}, "e": ""}


def test_a_family_is_below_what_the_user_says():
    model = with_family({"family": "loop2", "mlp": {"hidden": 77}, "softcap": None})
    assert model["mlp"] == {"kind": "relu2", "hidden": 77}
    assert model["softcap"] is None
    assert model["application_scalars"] is True
    assert with_family({"family": "no such"}) == {"family": "no such"}, "an unknown family is for its type to refuse"


def test_models_made_in_python_get_the_family_too():
    model = Model(family="loop2", layers=4, d_model=64, heads=4, mlp=Mlp(hidden=77), softcap="none")
    assert (model.mlp.kind, model.mlp.hidden, model.mlp.ratio) == ("relu2", 77, None)
    assert model.softcap is None
    assert model.qk_norm == "plain"
    llama = Model(layers=4, d_model=64, heads=4, mlp={"kind": "relu2"})
    assert (llama.mlp.kind, llama.mlp.ratio, llama.norm.weight) == ("relu2", 4, True)


def test_a_model_written_out_reads_back_as_itself():
    for family in ("llama", "loop2"):
        model = Model(family=family, layers="2 x (gdn gqa)", d_model=64, heads=4, mlp={"hidden": 77}, softcap=None, windows={"short": 9})
        assert Model.model_validate(model.model_dump()) == model
        assert Model.model_validate_json(model.model_dump_json()) == model
