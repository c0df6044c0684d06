"""YAML as text with lines: nothing is interpreted, nothing is lost, and what is no study says so."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.study import reading
from ostinato.study.reading import Items, Section, Text, Unreadable, read


@pytest.fixture(autouse=True, params=["c", "python"], scope="module")
def parser(request):
    """Every test here runs with the C parser, where there is one, and with the pure-Python one."""
    if request.param == "c" and not hasattr(yaml, "CBaseLoader"):
        pytest.skip("this yaml has no C parser")
    before, reading._Loader = reading._Loader, yaml.CBaseLoader if request.param == "c" else yaml.BaseLoader
    yield
    reading._Loader = before


def tree(text: str) -> Section:
    section, problems = read(text.encode())
    assert not problems
    return section


def test_scalars_stay_as_they_were_written():
    section = tree("a: [1e-3, 012, no, 1:30, 0x10, .inf, 2026-11-29, 1_000, '7', \"x\"]\nb: |\n  two\n  lines\n")
    assert section["a"] == ["1e-3", "012", "no", "1:30", "0x10", ".inf", "2026-11-29", "1_000", "7", "x"]
    assert section["b"] == "two\nlines\n"


def test_every_value_knows_its_line_and_place():
    section = tree("# comment\na:\n  b: 1\n  c:\n    - x\n    - y\n")
    assert section["a"]["b"].line == 3
    assert section["a"]["b"].place == ("a", "b")
    assert section["a"]["c"].line == 5
    assert section["a"]["c"][1].line == 6
    assert section["a"]["c"][1].place == ("a", "c", "2")
    assert section["a"].key_lines == {"b": 3, "c": 4}
    assert isinstance(section["a"]["c"], Items) and isinstance(section["a"]["b"], Text)


@pytest.mark.parametrize("null", ["", "~", "null", "Null"])
def test_nothing_is_none_unless_it_is_quoted(null):
    assert tree(f"a: {null}\nb: 1")["a"] is None
    assert tree(f"a: '{null}'\nb: 1")["a"] == null


def test_anchors_aliases_and_merge_keys():
    section = tree("a: &one {x: 1, y: 2}\nb: {<<: *one, y: 3}\nc: {<<: [*one, {z: 4, x: 9}]}\nd: *one\n")
    assert section["b"] == {"x": "1", "y": "3"}
    assert section["c"] == {"x": "1", "y": "2", "z": "4"}
    assert section["d"] == section["a"]
    assert section["b"].key_lines == {"x": 1, "y": 2}


def test_a_key_twice_names_both_lines():
    _, problems = read(b"a:\n  lr: 1\n  x: 2\n  lr: 3\na: 4\n")
    assert [(problem.line, problem.where) for problem in problems] == [(4, "a.lr"), (5, "a")]
    assert "lines 2 and 4" in problems[0].what
    assert "lines 1 and 5" in problems[1].what


def test_unicode_and_a_byte_order_mark():
    assert tree("\ufefffrage: Lohnt sich ein zweiter Durchgang? 再び 🐕\n")["frage"].endswith("再び 🐕")


@pytest.mark.parametrize(
    ("content", "line", "part"),
    [
        (b"", None, "empty"),
        (b"# only a comment\n", None, "empty"),
        (b"~\n", None, "empty"),
        (b"- a\n- b\n", 1, "a list"),
        (b"just words\n", 1, "a single value"),
        (b"a: 1\n---\nb: 2\n", 3, "second document"),
        (b"a:\n\tb: 1\n", 2, "a tab"),
        (b"a: b: c\n", 1, "mapping values"),
        (b"a: {b: 1\n", None, "flow mapping"),
        (b"a: *nowhere\n", 1, "alias"),
        (b"a: 1\nb: \xff\n", 2, "0xff is not UTF-8"),
        (b"a: \x07\n", 1, "control|special"),
        (b"[" * 1_500, None, "nest"),
        (b"a: 1\n" * 1_000_000, None, "5,000,000 bytes"),
    ],
)
def test_what_cannot_be_read_says_where_and_why(content, line, part):
    with pytest.raises(Unreadable, match=part) as caught:
        read(content)
    if line is not None:
        assert caught.value.problem.line == line


def test_aliases_do_not_explode():
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10))
    with pytest.raises(Unreadable, match="50,000"):
        read(bomb.encode())


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: &x [*x]", "contains itself"),
        ("a: &x {b: *x}", "contains itself"),
        ("a: &x {<<: *x, b: 1}", "contains itself|not followed"),
        ("a: !!python/object:os.system x", "tag"),
        ("a: !mine x", "tag"),
        ("a: {<<: 3}", "not followed by sections"),
        ("? [a, b]\n: 1", "not a word"),
        ("~: 1", "not a word"),
    ],
)
def test_yaml_that_no_study_needs_is_refused(text, part):
    _, problems = read(text.encode())
    assert any(problem.line == 1 for problem in problems)
    assert __import__("re").search(part, " ".join(problem.what for problem in problems))


TREES = st.recursive(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=8), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "clé", "x y"]), TREES, min_size=1))
def test_what_yaml_writes_is_read_back(given_tree):
    assert tree(yaml.safe_dump(given_tree, allow_unicode=True, default_style='"')) == given_tree


@settings(max_examples=300)
@given(st.binary(max_size=60) | st.text(alphabet="ab:-{}[]&*!?|>'\"#,%@ \n\t~<", max_size=60).map(str.encode))
def test_no_bytes_do_anything_but_give_a_tree_or_say_why_not(content):
    try:
        section, problems = read(content)
    except Unreadable as error:
        assert error.problem.what
    else:
        assert isinstance(section, Section)
        assert all(problem.what for problem in problems)
