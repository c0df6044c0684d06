"""Case 21: numbers are read as a person means them; all else is an error with section, key, line and the nearest right name."""

from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.errors import OstinatoError, StudyError
from ostinato.study import load_study
from ostinato.study.records import Checkpoints, Data, Evaluate, Model, Recipe
from ostinato.study.shape import homes, study_keys

BASE = """\
model:
  layers: 4
  d_model: 64
  heads: 4
recipe:
  tokens: 100k
arms:
  plain: {}
  deep: {layers: 8}
evaluate: {batch: 4096}
"""


def load(tmp_path, text: str):
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    return load_study(tmp_path / "mine.yaml")


def refused(tmp_path, text: str, *parts: str) -> str:
    with pytest.raises(StudyError) as caught:
        load(tmp_path, text)
    told = str(caught.value)
    for part in parts:
        assert part in told, told
    assert "Traceback" not in told
    return told


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("lr", "1e-3", 0.001),
        ("lr", "3e-4", 0.0003),
        ("lr", ".02", 0.02),
        ("lr", "'0.02'", 0.02),
        ("lr", "2e-2", 0.02),
        ("tokens", "3e4", 30_000),
        ("tokens", "012000", 12_000),
        ("tokens", "100_000", 100_000),
        ("tokens", "0.1M", 100_000),
        ("tokens", "128Ki", 131_072),
        ("batch", "2K", 2000),
        ("context", "064", 64),
        ("decay_to_zero", "no", False),
        ("decay_to_zero", "yes", True),
        ("decay_to_zero", "off", False),
        ("clip", "none", None),
        ("clip", "1", 1.0),
        ("betas", "[.9, 95e-2]", (0.9, 0.95)),
    ],
)
def test_numbers_and_switches_as_a_person_means_them(tmp_path, key, text, value):
    loaded = load(tmp_path, BASE.replace("tokens: 100k", f"{key}: {text}"))
    assert getattr(loaded.arms[0].recipe, key) == value


@pytest.mark.parametrize(
    "text", ["1:30", "no", "yes", "1e", "0x10", "1,000", "abc", "nan", ".inf", "-.inf", "2026-11-29", "[1]", "{a: 1}", "1 2", "''"]
)
@pytest.mark.parametrize("key", ["lr", "tokens", "lr_schedule.warmup", "muon.steps"])
def test_what_is_no_number_is_named_with_its_line(tmp_path, key, text):
    section, _, inner = key.rpartition(".")
    line = f"{section}:\n    {inner}: {text}" if section else f"{key}: {text}"
    refused(tmp_path, BASE.replace("tokens: 100k", line), "line 7" if section else "line 6", f"recipe.{key}")


def test_a_comma_between_braces_is_explained(tmp_path):
    refused(tmp_path, BASE.replace("tokens: 100k", "muon: {momentum_steps: 1,000}"), "line 6", "recipe.muon", "a comma begins the next key")
    refused(
        tmp_path, BASE.replace("{layers: 8}", "{layers: 8, note: one, and another}"), "line 9", "arms.deep", "a comma begins the next key"
    )


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("1e30", "larger"),
        ("9" * 400, "not a number"),
        ("1e99999999", "not a number"),
        ("-5", "at least 1"),
        ("0", "at least 1"),
        ("1.5", "whole"),
    ],
)
def test_numbers_out_of_range(tmp_path, text, part):
    refused(tmp_path, BASE.replace("100k", text), "line 6", "recipe.tokens", part)


@pytest.mark.parametrize("text", ["[0.9, 1]", "[1.0, 0.95]", "[-0.1, 0.95]", "[0.9, 2]"])
@pytest.mark.parametrize("place", ["{}", "groups: {{embedding: {{{}}}}}"])
def test_betas_are_shares(tmp_path, text, place):
    """At 1 AdamW would divide by 0 when it corrects its start."""
    refused(tmp_path, BASE.replace("tokens: 100k", place.format(f"betas: {text}")), "line 6", "betas", "out of range")


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("d_model: 64", "d_modle: 64", ["line 3", "model", "'d_modle'", "d_model"]),
        ("tokens: 100k", "tokns: 100k", ["line 6", "recipe", "'tokns'", "tokens"]),
        ("deep: {layers: 8}", "deep: {layrs: 8}", ["line 9", "arms.deep", "'layrs'", "layers"]),
        ("evaluate:", "evalute:", ["line 10", "top level", "'evalute'", "evaluate"]),
        ("tokens: 100k", "groups: {embeding: {lr: 1}}", ["recipe.groups", "'embeding'", "embedding"]),
        ("tokens: 100k", "groups: {embedding: {lrate: 1}}", ["recipe.groups.embedding", "'lrate'"]),
        ("tokens: 100k", "learning_rate: 1", ["line 6", "recipe", "'learning_rate'", "lr"]),
        ("heads: 4", "n_heads: 4", ["line 4", "model", "'n_heads'", "heads"]),
        ("heads: 4", "vocab_size: 4", ["line 4", "bpe", "data.tokenizer"]),
        ("heads: 4", "positions: ropes", ["line 4", "model.positions", "'ropes'", "none, rope, learned, alibi", "rope"]),
        ("heads: 4", "qk_norm: no", ["line 4", "model.qk_norm", "'no'", "none"]),
        ("heads: 4", "family: llma", ["line 4", "model.family", "llama"]),
    ],
)
def test_a_misspelt_key_or_word_names_the_nearest_right_one(tmp_path, old, new, parts):
    refused(tmp_path, BASE.replace(old, new), *parts)


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("heads: 4", "lr: 4", ["line 4", "model", "'lr'", "belongs in recipe"]),
        ("heads: 4", "corpus: x", ["line 4", "'corpus'", "belongs in data"]),
        ("tokens: 100k", "d_model: 4", ["line 6", "recipe", "belongs in model"]),
        ("tokens: 100k", "every: 4", ["line 6", "recipe", "belongs in evaluate or checkpoints"]),
        ("deep: {layers: 8}", "deep: {lr: 8}", ["line 9", "arms.deep", "belongs in arms.deep.recipe"]),
        ("deep: {layers: 8}", "deep: {model: {layers: 8}}", ["line 9", "arms.deep", "in an arm itself", "deep: {layers: …}"]),
        ("deep: {layers: 8}", "deep: {evaluate: {}}", ["line 9", "arms.deep", "top level"]),
        ("deep: {layers: 8}", "deep: {model: {layers: 8}}", ["line 9", "arms.deep", "'model'"]),
        ("evaluate: {batch: 4096}", "layers: 4", ["line 10", "top level", "belongs in model"]),
        ("evaluate: {batch: 4096}", "lr: 4", ["line 10", "belongs in recipe"]),
        ("evaluate: {batch: 4096}", "momentum: 4", ["line 10", "belongs in recipe.muon"]),
    ],
)
def test_a_right_key_in_the_wrong_section_names_the_right_section(tmp_path, old, new, parts):
    refused(tmp_path, BASE.replace(old, new), *parts)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (BASE.replace("  heads: 4\n", "  heads: 4\n  d_model: 32\n"), "lines 3 and 5"),
        (BASE + "recipe: {lr: 1}\n", "lines 5 and 11"),
        (BASE.replace("  deep: {layers: 8}\n", "  plain: {layers: 8}\n"), "lines 8 and 9"),
        (BASE.replace("{layers: 8}", "{layers: 8, layers: 8}"), "lines 9 and 9"),
    ],
)
def test_a_key_twice_names_both_lines(tmp_path, text, lines):
    refused(tmp_path, text, "is given twice", lines)


def test_several_mistakes_are_told_at_once(tmp_path):
    text = BASE.replace("heads: 4", "haeds: 4").replace("100k", "1:30").replace("{layers: 8}", "{lr: 8}").replace("evaluate:", "evalute:")
    told = refused(tmp_path, text, "4 problems", "haeds", "1:30", "arms.deep", "evalute")
    assert [word in told for word in ("line 4", "line 6", "line 9", "line 10")] == [True] * 4


def _sections():
    return sorted({home[:-1] for home in homes(study_keys()) if home[0] not in ("sizes",)})


@pytest.mark.parametrize("section", _sections(), ids=lambda place: ".".join(place) or "top")
def test_no_section_at_any_depth_lets_an_unknown_key_pass(tmp_path, section):
    fill = {"<arm>": "deep", "<role>": "embedding", "<name>": "x"}
    place = [fill.get(step, step) for step in section]
    lines = [f"{'  ' * depth}{step}:" for depth, step in enumerate(place)] + [f"{'  ' * len(place)}unheard_of: 1"]
    if section == ("predictions", "<prediction>"):  # the one section that is an item of a list
        place, lines = ["predictions"], ["predictions:", "  - unheard_of: 1"]
    refused(tmp_path, "\n".join(lines) + "\n", "'unheard_of'", ".".join(place) or "top level", f"line {len(lines)}")


@pytest.mark.parametrize("record", [Model, Recipe, Data, Evaluate, Checkpoints])
def test_the_records_refuse_unknown_keys_too(record):
    with pytest.raises(ValueError, match="unheard_of"):
        record(**({"layers": 1, "d_model": 2, "heads": 1} if record is Model else {}), unheard_of=1)


NASTY = [
    "~",
    "none",
    "no",
    "0",
    "-1",
    "1",
    "0.3",
    "1e18",
    "1e308",
    "9223372036854775807",
    "x",
    "1..4",
    "[]",
    "[1]",
    "[[1]]",
    "{}",
    "{a: 1}",
    "~nobody/x",
    "''",
    '"\\0"',
    "🐕",
]


def _set_at(place: tuple[str, ...], value: str) -> str:
    """BASE with `value` at `place`."""
    fill = {"<arm>": "deep", "<role>": "embedding", "<name>": "x"}
    tree = yaml.safe_load(BASE)
    at = tree
    for step in place[:-1]:
        at = at.setdefault(fill.get(step, step), {})
    at[place[-1]] = "@"
    return yaml.safe_dump(tree).replace("'@'", value)


@pytest.mark.parametrize("place", [place for place in homes(study_keys()) if place[0] != "sizes"], ids=".".join)
def test_no_value_at_any_key_does_anything_but_load_or_tell(tmp_path, place):
    for value in NASTY:
        begun = time.monotonic()
        try:
            load(tmp_path, _set_at(place, value))
        except OstinatoError as error:
            assert error.what
        assert time.monotonic() - begun < 10


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_whatever_a_person_writes_there_is_a_study_or_a_study_error(tmp_path_factory, data):
    """Random edits of a good file: lines dropped, doubled, swapped, values replaced."""
    lines = BASE.splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        edit = data.draw(st.sampled_from(["drop", "double", "indent", "value", "text"]))
        if edit == "drop" and len(lines) > 1:
            lines.pop(at)
        elif edit == "double":
            lines.insert(at, lines[at])
        elif edit == "indent":
            lines[at] = data.draw(st.sampled_from([" ", "\t", "  - "])) + lines[at]
        elif edit == "value" and ":" in lines[at]:
            lines[at] = (
                lines[at].split(":")[0]
                + ": "
                + data.draw(st.sampled_from(["1:30", "no", "[]", "{}", "~", "*a", "1e999", "x", '"', "1..4", "<<", "-1", "{a: 1}"]))
            )
        else:
            lines[at] = data.draw(st.text(alphabet="ab:{}[]&*-#'\" \t019.x", max_size=12))
    path = tmp_path_factory.mktemp("edit") / "mine.yaml"
    path.write_text("\n".join(lines))
    try:
        load_study(path)
    except OstinatoError as error:
        assert error.what
