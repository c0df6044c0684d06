"""Loading: sizes, arms, paths, and what the types cannot see."""

from __future__ import annotations

import os

import pytest

from ostinato.errors import StudyError
from ostinato.study import load_study, shipped, sizes, template
from ostinato.study.pairs import bases

BASE = """\
model: {layers: 4, d_model: 64, heads: 4}
arms:
  plain: {}
  twice: {schedule: 1..4 1..4}
"""


@pytest.fixture
def study(tmp_path):
    """study(text) loads BASE + text; study(text, base="") loads the text alone."""

    def load(text: str = "", size: str | None = None, base: str = BASE):
        (tmp_path / "mine.yaml").write_text(base + text, encoding="utf-8")
        return load_study(tmp_path / "mine.yaml", size)

    return load


def refused(study, text: str, *parts: str, base: str = BASE) -> str:
    with pytest.raises(StudyError) as caught:
        study(text, base=base)
    for part in parts:
        assert part in str(caught.value)
    return str(caught.value)


def test_windows_of_documents_hold_bos_and_more(study):
    one = "recipe: {context: 1, batch: 64}\n"
    refused(study, one, "recipe.context", "windows of 1 token", "evaluate: {context: 2}")
    refused(study, "evaluate: {context: 1}\n", "evaluate.context", "windows of 1 token")
    refused(study, "evaluate: {context: 8, stride: 8}\n", "stride 8 is not less than the context 8", "stride: 4")
    for measured in ("{context: 2}", "{context: 2, stride: 1}", "{windows: rows}"):
        assert study(one + f"evaluate: {measured}\n").arms[0].recipe.context == 1


@pytest.mark.parametrize("depth", ["0", "-3"])
def test_a_word_or_a_number_out_of_range(study, depth):
    refused(study, f"  a: {{residual_scaling: {depth}}}\n", f"'{depth}' is out of range", "residual_scaling is more than 0")
    refused(study, "  a: {residual_scaling: deep}\n", "'deep' is not none, unique or effective, or a number")


def test_an_odd_head_is_for_rope_alone_a_hindrance_and_gated_delta_layers_have_none(study):
    refused(study, "  a: {layers: gqa gdn, heads: 3, head_dim: 5}\n", "rope with heads of 5 channels")
    assert by_name(study("  a: {layers: 2 x gdn, heads: 3, head_dim: 5}\n"))["a"].model.head_dim == 5


def by_name(loaded):
    return {arm.name: arm for arm in loaded.arms}


def test_arms_inherit_and_override_at_every_depth(study):
    loaded = study(
        "  wide: {mlp: {hidden: 99}, recipe: {lr: 1e-3, muon: {steps: 3}}, data: {tokenizer: {bpe: 300}}, seeds: 7, note: a note}\n"
        "recipe: {lr: 0.5, tokens: 3e4, muon: {momentum: 0.9}}\nseeds: [1, 2]\ndata: {tokenizer: {file: t.json}, buffer: 012}\n"
    )
    arms = by_name(loaded)
    assert list(arms) == ["plain", "twice", "wide"]
    wide, plain = arms["wide"], arms["plain"]
    assert (wide.model.mlp.hidden, wide.model.mlp.ratio, plain.model.mlp.ratio) == (99, None, 4)
    assert (wide.recipe.lr, wide.recipe.tokens, plain.recipe.lr) == (1e-3, 30_000, 0.5)
    assert (wide.recipe.muon.steps, wide.recipe.muon.momentum, plain.recipe.muon.steps) == (3, 0.9, 5)
    assert (wide.data.tokenizer.bpe, wide.data.tokenizer.file, wide.data.buffer) == (300, None, 12)
    assert (wide.seeds, plain.seeds, wide.note) == ((7,), (1, 2), "a note")
    assert loaded.reference == "plain"
    assert loaded.given.startswith("model:")
    assert loaded.name == "mine"


def test_an_arm_may_change_the_family(study):
    arms = by_name(study("  other: {family: loop2, windows: {short: 9}}\n"))
    assert (arms["other"].model.mlp.kind, arms["other"].model.tie_embeddings, arms["plain"].model.mlp.kind) == ("relu2", False, "swiglu")


def test_a_null_puts_a_key_back_and_none_is_no_value(study):
    arms = by_name(
        study(
            "  a: {softcap: null}\n  b: {softcap: none}\n",
            base=BASE.replace("heads: 4", "heads: 4, family: loop2, softcap: 9, windows: {short: 5}"),
        )
    )
    assert (arms["plain"].model.softcap, arms["a"].model.softcap, arms["b"].model.softcap) == (9, 15, None)


def test_anchors_serve_arms(study):
    arms = by_name(study("  a: &a {layers: 6, note: x}\n  b: {<<: *a, note: y}\n"))
    assert (len(arms["b"].model.layers), arms["b"].note) == (6, "y")


def test_sizes_lie_over_the_study_and_the_first_is_the_default(study):
    text = (
        "seeds: [1, 2]\nsizes:\n  full: {}\n  small: {recipe: {tokens: 5k}, seeds: [3], evaluate: {windows: rows},"
        " arms: {twice: null, plain: {heads: 2}, new: {layers: 2}}}\n"
    )
    assert study(text).size == "full"
    assert [arm.name for arm in study(text).arms] == ["plain", "twice"]
    small = study(text, "small")
    assert small.size == "small"
    assert [arm.name for arm in small.arms] == ["plain", "new"]
    assert (small.arms[0].model.heads, small.arms[0].recipe.tokens, small.arms[0].seeds, small.evaluate.windows) == (2, 5000, (3,), "rows")
    with pytest.raises(StudyError, match=r"no size 'smal'[\s\S]*small"):
        study(text, "smal")
    with pytest.raises(StudyError, match="no size 'x'"):
        study("", "x")


def test_every_size_is_held_against_the_rules_not_only_the_asked_one(study):
    refused(study, "sizes: {full: {}, small: {recipe: {learning_rate: 3}}}\n", "sizes.small.recipe", "'learning_rate'", "lr")
    refused(study, "sizes: {full: {}, small: {recipe: {lr: 1:30}}}\n", "sizes.small.recipe.lr", "'1:30'")
    refused(study, "sizes: {full: {arms: {twicee: null}}}\n", "no arm 'twicee' to leave out", "twice")


def test_paths_count_from_the_study_file(study, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    (tmp_path / "texts").mkdir()
    (tmp_path / "here.txt").write_text("x")
    text = (
        "  a: {data: {corpus: texts}}\n  b: {data: {corpus: here.txt}}\n  c: {data: {corpus: some/hub-id}}\n"
        "  d: {data: {corpus: python-docs-plus}}\n  e: {data: {corpus: ../gone.jsonl}}\n  f: {data: {tokenizer: {file: t.json}}}\n"
    )
    arms = by_name(loaded := study(text))
    assert arms["a"].data.corpus == str(tmp_path / "texts")
    assert arms["b"].data.corpus == str(tmp_path / "here.txt")
    assert arms["c"].data.corpus == "some/hub-id"
    assert arms["d"].data.corpus == "python-docs-plus"
    assert os.path.normpath(arms["e"].data.corpus) == str(tmp_path.parent / "gone.jsonl")
    assert arms["f"].data.tokenizer.file == str(tmp_path / "t.json")
    assert any("gone.jsonl is not there" in warning for warning in loaded.warnings)
    refused(study, "data: {corpus: python-doc}\n", "no corpus 'python-doc'", "line 5", "python-docs")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("reference: twicee\n", ["line 5", "reference", "'twicee' is no arm", "twice"]),
        ("  x: {heads: 5}\n", ["line 5", "arms.x.heads", "5 heads do not divide d_model 64", "heads: 4"]),
        ("  x: {kv_heads: 3}\n", ["line 5", "arms.x.kv_heads", "3 kv_heads"]),
        ("  x: {head_dim: 5}\n", ["line 5", "arms.x.head_dim", "rope", "even"]),
        ("  x: {schedule: 1..5}\n", ["line 5", "arm x", "column 4", "numbered from 1 to 4"]),
        ("  x: {schedule: 1..4 1..4 (}\n", ["line 5", "arm x", "column"]),
        ("  x: {schedule: '(1..4)x{r}'}\n", ["line 5", "{r} has no value", "passes: 2"]),
        ("  x: {passes: 2}\n", ["line 5", "arms.x.passes", "{r}"]),
        ("  x: {layers: 2}\n  y: {layers: 2, schedule: '[4,2,1,1]'}\n", ["line 6", "arm y", "column"]),
        ("  x: {schedule: 1..2 1..2 1, inject: linear}\n", ["line 5", "arms.x.inject", "column 9", "part of a pass"]),
        ("  x: {schedule: (1 2x2)x2, pass_norm: yes}\n", ["line 5", "arms.x.pass_norm", "column 3", "a repeated group within another"]),
        ("  x: {schedule: 1 (1 2)x2, pass_norm: yes, inject: linear}\n", ["arms.x.inject", "two repeated groups share"]),
        ("  x: {attn_gate: heads}\n", ["line 5", "attn_gate", "head, channel"]),
        ("  x: {tie: {'3:attn': '3:attn'}}\n", ["line 5", "arms.x.tie", "itself"]),
        ("  x: {tie: {'3:attn': '2:attn', '2:attn': '3:attn'}}\n", ["circle"]),
        ("  x: {tie: {'5:attn': '1:attn'}}\n", ["outside the model's layers 1..4"]),
        ("  x: {layers: gdn gqa, tie: {'2:attn': '1:attn'}}\n", ["gqa and layer 1 is gdn"]),
        ("  x: {windows: {pattern: SL}}\n", ["line 5", "arms.x.windows.pattern", "short"]),
        ("  x: {family: loop2}\n", ["line 5", "SSSL", "short"]),
        ("  x: {mlp: {hidden: 3, ratio: 2}}\n", ["hidden 3 and ratio 2"]),
        ("  x: {mlp: {ratio: 2.7}}\n", ["172.8", "hidden: 173"]),
        ("  x: {value_embeddings: all, layers: gdn gqa}\n", ["value_embeddings all with gdn layers"]),
        ("  x: {value_embeddings: all, d_model: 16}\n", ["d_model 16 with value embeddings", "32"]),
        ("  x: {init: {rule: loop2}, residual_scaling: unique}\n", ["starts them at 0"]),
        ("  x: {positions: learned}\nevaluate: {context: 999}\n", ["arm x", "learned positions for 128 tokens"]),
        ("recipe: {batch: 100}\n", ["line 5", "recipe.batch", "arms plain, twice", "less than one row of context 128"]),
        ("recipe: {tokens: 100}\n", ["line 5", "recipe.tokens", "fewer than one step"]),
        ("recipe: {micro_batch: 100}\n", ["recipe.micro_batch", "128"]),
        ("recipe: {groups: {embedding: {kind: muon}}}\n", ["line 5", "recipe.groups", "embedding asks for muon"]),
        ("recipe: {lr_schedule: {warmup: 0.2, decay: 0.9}}\n", ["more than the whole run", "decay: 0.8"]),
        ("data: {tokenizer: {bpe: 300, file: t.json}}\n", ["both bpe and file"]),
        ("data: {tokenizer: {bpe: none}}\n", ["neither bpe nor file"]),
        ("seeds: [1, 2, 1]\n", ["line 5", "seeds", "name one twice"]),
        ("seeds: []\n", ["no seed"]),
        ("  x: {seed_names: {7: other}}\n", ["line 5", "seed 7"]),
        ("  x: {schedule: 4, seed_names: {1: plain}}\n", ["'plain' is given twice"]),
        ("  x: {against: x}\n", ["line 5", "arms.x.against", "x is against itself", "against: plain"]),
        ("  x: {against: twicee}\n", ["line 5", "arms.x.against", "'twicee' is no arm", "against: twice"]),
        ("  x: {against: twice}\nreference: x\n", ["line 5", "arms.x.against", "x is the reference"]),
        ("  x: {against: twice}\nsizes: {small: {arms: {twice: null}}}\n", ["line 5", "'twice' is no arm", "in the same size"]),
        ("evaluate: {every: often}\n", ["line 5", "evaluate.every", "'often'"]),
        ("evaluate: {stride: 500}\n", ["line 5", "evaluate.stride", "context 128"]),
        ("evaluate: {stride: 5, windows: rows}\n", ["line 5", "stride with windows: rows"]),
        ("evaluate: {batch: 5}\n", ["line 5", "evaluate.batch", "one window of 128"]),
        ("checkpoints: {every: every 0}\n", ["line 5", "checkpoints.every", "never moves on"]),
    ],
)
def test_what_the_types_cannot_see(study, text, parts):
    refused(study, text, *parts)


def test_what_several_arms_inherit_is_told_once_and_all_problems_at_once(study):
    told = refused(study, "recipe: {batch: 100, micro_batch: 3}\nreference: palin\nevaluate: {every: often}\n", "4 problems")
    assert told.count("less than one row of context 128\n") == 2  # the batch and the micro-batch
    assert told.count("arms plain, twice") == 2
    assert told.index("line 5") < told.index("line 6") < told.index("line 7")


def test_a_hundred_problems_are_counted_and_not_all_listed(study):
    told = refused(study, "".join(f"k{number}: 1\n" for number in range(100)), "100 problems", "and 80 more")
    assert len(told.splitlines()) < 70


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "empty"),
        ("arms: {}\n", "no arm"),
        ("model: {layers: 4, d_model: 64, heads: 4}\n", "no arm"),
        ("model: {d_model: 64}\narms: {a: {}}\n", "layers, heads not given"),
        ("arms: [a, b]\n", "arms: a list is not a section"),
        ("arms: {a: 3}\n", "'3' is not a section"),
        ("- a\n", "a list"),
    ],
)
def test_files_that_are_no_study(study, text, part):
    refused(study, text, part, base="")


def test_an_empty_arm_is_the_model_itself(study):
    assert [arm.name for arm in study("arms:\n  plain:\n  other: ~\n", base="model: {layers: 4, d_model: 64, heads: 4}\n").arms] == [
        "plain",
        "other",
    ]


def test_arms_that_are_one_run_are_warned_of(study):
    (warning,) = study("  again: {schedule: 1..4 1..2 3..4, note: the same, kv_heads: 4}\n").warnings
    assert "twice and again" in warning
    assert not study().warnings


def test_names_of_arms_are_free_within_reason(study):
    assert [
        arm.name
        for arm in study(
            "arms:\n  GDN 2:1: {}\n  'zweimal·再び': {schedule: 1..4 4}\n", base="model: {layers: 4, d_model: 64, heads: 4}\n"
        ).arms
    ] == ["GDN 2:1", "zweimal·再び"]
    for name in ("a/b", "' a'", '"a\\nb"', "x" * 61, "''"):
        refused(study, f"  {name}: {{schedule: 4}}\n", "the arm")


def test_files_that_are_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for source, part in (("quickstrat", "quickstart"), ("loop3.yaml", "loop2"), (tmp_path / "none.yaml", "one of")):
        with pytest.raises(StudyError, match="there is no study") as caught:
            load_study(source)
        assert part in caught.value.fix
    (tmp_path / "mine.yaml").write_text(BASE)
    with pytest.raises(StudyError) as caught:
        load_study("mien.yaml")
    assert "mine.yaml" in caught.value.fix
    with pytest.raises(StudyError, match="folder") as caught:
        load_study(tmp_path)
    assert "mine.yaml" in caught.value.fix


def test_a_shipped_name_is_no_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quickstart").mkdir()
    assert load_study("quickstart").name == "quickstart"
    assert set(shipped()) == {"quickstart", "loop2", "hybrid", "hybrid-vocabulary", "ilr", "phi"}
    assert all(question.endswith("?") for question in shipped().values())
    assert sizes("loop2") == ("paper", "desk")
    assert sizes("quickstart") == ()


def test_the_template_is_a_study_that_fits_a_desk(tmp_path):
    (tmp_path / "new.yaml").write_text(template(), encoding="utf-8")
    loaded = load_study(tmp_path / "new.yaml")
    assert len(loaded.arms) >= 3
    assert not loaded.warnings
    assert {len(arm.seeds) for arm in loaded.arms} == {2}
    lines = template().splitlines()
    commented = [line for line in lines if "#" in line]
    assert len(commented) > len(lines) / 3


def test_the_commented_lines_of_the_template_work_too(tmp_path):
    text = template()
    for line, uncommented in (
        ("  # kv_heads: 2 ", "  kv_heads: 2 "),
        ("  # mlp: {hidden: 171}", "  mlp: {hidden: 171}"),
        ("  # positions: rope", "  positions: rope"),
        ("  # clip: 1.0", "  clip: 1.0"),
        ("  # groups:", "  groups:"),
        ("  # every: 100k", "  every: 100k"),
        ("  # document_mask: yes", "  document_mask: yes"),
        ("  # field: text", "  field: text"),
        ("  # separator:", "  separator:"),
        ("# sizes:", "sizes:"),
        ("#   full:", "  full:"),
        ("#   small:", "  small:"),
    ):
        assert line in text
        text = text.replace(line, uncommented)
    (tmp_path / "new.yaml").write_text(text, encoding="utf-8")
    small = load_study(tmp_path / "new.yaml", "small")
    assert (small.arms[0].model.kv_heads, small.arms[0].recipe.clip, small.evaluate.every) == (2, 1.0, "100k")
    assert "deep" not in [arm.name for arm in small.arms]


def test_the_commented_predictions_of_the_template_work_too(tmp_path):
    lines = template().splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("# predictions:"))
    last = next(place for place, line in enumerate(lines) if line.startswith("# sizes:"))
    assert lines[first + 1].startswith("#   - claim")
    text = "\n".join([*lines[:first], *(line.removeprefix("# ") for line in lines[first:last])]).replace("  # thrice:", "  thrice:")
    (tmp_path / "new.yaml").write_text(text, encoding="utf-8")
    loaded = load_study(tmp_path / "new.yaml")
    assert [one.name for one in loaded.predictions] == ["p1", "depth"] and loaded.arms[-1].run_if and not loaded.warnings
    assert loaded.predictions[1].between == {"PARTIAL": "otherwise"} and list(loaded.quantities) == ["share of untied depth"]


def test_an_arm_may_say_what_it_is_compared_with(study):
    loaded = study("  x: {against: twice}\n  y: {against: x}\n  z: {against: null}\n")
    assert bases(loaded) == {"twice": "plain", "x": "twice", "y": "x", "z": "plain"}, "a chain is fine"


def test_ready_names_set_what_they_stand_for_and_a_study_may_say_otherwise(tmp_path):
    def load(data):
        path = tmp_path / "study.yaml"
        path.write_text(f"data: {data}\nmodel: {{layers: 2, d_model: 32, heads: 2}}\narms: {{plain: {{}}}}\n")
        return load_study(path)

    study = load("{corpus: babylm-2026-strict}")
    assert (study.arms[0].data.corpus, study.arms[0].data.join, study.arms[0].data.field) == ("babylm-2026-strict", 4096, "text")
    assert load("{corpus: babylm-2026-strict, join: none}").arms[0].data.join is None
    assert load("{corpus: fineweb-edu, config: sample-100BT, most: 2G}").arms[0].data.config == "sample-100BT"
    study = load("{corpus: fineweb-edu}")
    assert study.arms[0].data.config == "sample-10BT" and any("10 billion tokens" in warning for warning in study.warnings)
    assert not any("streamed" in warning for warning in load("{corpus: fineweb-edu, most: 2G}").warnings)
    assert load("{corpus: someone/else@v1, split: test}").arms[0].data.corpus == "someone/else@v1"
    with pytest.raises(StudyError, match=r"no corpus 'fineweb_edu'(.|\n)*fineweb-edu"):
        load("{corpus: fineweb_edu}")
    with pytest.raises(StudyError, match="most"):
        load("{corpus: python-docs, max_bytes: 2G}")
    (idle,) = [warning for warning in load("{corpus: python-docs, join: 100}").warnings if "data.join" in warning]
    assert "does nothing" in idle
