"""The shipped studies: each loads in each size, and says what its source published."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from ostinato.ledger import account
from ostinato.model.init import residual_factor
from ostinato.schedule import effective_depth, unique_layers
from ostinato.study import load_study, shipped, sizes
from ostinato.study.derive import (
    arm_applications,
    arm_schedule,
    has_value_table,
    head_dim,
    kv_heads,
    layer_window,
    model_hidden,
    optimizer_groups,
    recipe_steps,
    tied_to,
    vocab,
)
from ostinato.study.fingerprint import run_identity
from ostinato.study.points import points

GOLDEN = Path(__file__).parent.parent / "golden"
ALL = [(name, size) for name in shipped() for size in sizes(name) or (None,)]
FACTS = json.loads((GOLDEN / "shipped_recipes.json").read_text())


def costs(name: str) -> dict:
    return json.loads((GOLDEN / f"{name}_costs.json").read_text())


def arms(name: str, size: str | None = None):
    return {arm.name: arm for arm in load_study(name, size).arms}


@pytest.mark.parametrize(("name", "size"), ALL)
def test_every_study_dry_runs_in_every_size(name, size):
    study = load_study(name, size)
    assert study.size == size
    assert not study.warnings
    assert study.question.endswith("?")
    for arm in study.arms:
        steps = recipe_steps(arm.recipe)
        assert arm_applications(arm.model)
        assert optimizer_groups(arm.recipe, arm.model)
        assert points(study.evaluate.every, steps.tokens, steps.tokens_per_step)[-1] == steps.tokens
        assert [layer_window(arm.model, layer, arm.recipe.context) for layer in range(1, len(arm.model.layers) + 1)]
        assert vocab(arm.data.tokenizer) >= 258


@pytest.mark.parametrize("name", ["loop2", "hybrid", "ilr"])
def test_paper_is_the_default_and_desk_has_the_same_topology(name):
    assert sizes(name) == ("paper", "desk")
    assert load_study(name).size == "paper"
    paper, desk = arms(name), arms(name, "desk")
    assert load_study(name, "desk").reference == load_study(name).reference
    only_desk = {"hybrid": {"GDN 2:1 all", "Recursive 2:1 all"}}.get(name, set())  # desk trains on a share of its text, paper on all
    assert set(desk) - set(paper) == only_desk
    for arm, small in desk.items():
        large = paper[arm.removesuffix(" all")]
        for key in (
            "family",
            "layers",
            "schedule",
            "inject",
            "tie",
            "positions",
            "qk_norm",
            "value_embeddings",
            "residual_scaling",
            "heads",
            "application_scalars",
        ):
            if (name, key) != ("hybrid", "heads"):
                assert getattr(small.model, key) == getattr(large.model, key), (arm, key)
        assert small.model.mlp.kind == large.model.mlp.kind
        assert model_hidden(small.model) / small.model.d_model == model_hidden(large.model) / large.model.d_model
        assert small.model.windows.pattern == large.model.windows.pattern
        assert bool(small.model.bigram_table) == bool(large.model.bigram_table)
        assert small.model.d_model == 64
        assert small.recipe.dtype == "float32"
        assert len(small.seeds) <= 3
        assert small.data.corpus == "python-docs"


def test_what_a_source_does_not_publish_is_marked_ours():
    for name in ("loop2", "hybrid", "ilr", "phi"):
        study = load_study(name)
        assert study.source
        assert study.ours["desk"]
        assert "dtype" in study.ours
    assert "bigram table" in load_study("loop2").ours
    assert {"learning rate", "context", "base initialisation", "residual scaling"} <= set(load_study("hybrid").ours)
    assert "seeds" in load_study("ilr").ours


def test_loop2_has_every_published_run_by_name():
    paper = arms("loop2")
    runs = {arm.seed_names.get(seed, name): (arm, seed) for name, arm in paper.items() for seed in arm.seeds}
    rows = costs("loop2")["arms"]
    assert len(rows) == 17
    for row in rows:
        arm, seed = runs[row["arm"]]
        assert seed == (45 if row["arm"].endswith("_s45") else FACTS["loop2"]["seed"])
        published = row["schedule"].split(",")[0]
        assert arm_schedule(arm.model).text == published
        assert not (arm.contingent or arm.run_if)


def test_loop2_follows_the_published_recipe():
    facts = FACTS["loop2"]
    study = load_study("loop2")
    base = arms("loop2")["base8"]
    model, steps = base.model, recipe_steps(base.recipe)
    assert (steps.tokens, steps.steps, steps.tokens_per_step) == (facts["tokens"], facts["steps"], facts["tokens_per_step"])
    assert (base.recipe.context, vocab(base.data.tokenizer), model.softcap) == (facts["context"], facts["vocab"], facts["softcap"])
    assert (base.recipe.micro_batch, base.data.packing, base.data.document_mask) == (64 * 2048, "best-fit", False)
    assert [layer_window(model, layer, 2048) for layer in range(1, 9)] == facts["windows"]
    assert [layer for layer in range(1, 9) if has_value_table(model, layer)] == facts["value_table_layers"]
    assert (head_dim(model), kv_heads(model), model_hidden(model), model.norm.weight, model.tie_embeddings) == (128, 4, 2048, False, False)
    groups = optimizer_groups(base.recipe, model)
    for role, lr in facts["lr"].items():
        assert groups[role].lr == lr
    for role, lr in facts["lr_before_width"].items():
        assert groups[role].lr == pytest.approx(lr * (512 / facts["width_base"]) ** -0.5)
    for role, decay in facts["weight_decay"].items():
        assert groups[role].weight_decay == decay
    assert {role for role, group in groups.items() if group.kind == "muon"} == {"matrix", "gate"}
    assert groups["x0_scalar"].betas == tuple(facts["x0_betas"])
    assert groups["head"].betas == tuple(facts["betas"])
    assert {group.eps for group in groups.values()} == {facts["eps"]}
    muon = base.recipe.muon
    assert [muon.momentum_start, muon.momentum, muon.momentum_steps] == facts["momentum"]
    assert (base.recipe.decay_to_zero, base.recipe.clip, base.recipe.lr_schedule.decay, base.recipe.lr_schedule.warmup) == (
        True,
        None,
        0.5,
        0,
    )
    assert (study.evaluate.windows, study.evaluate.targets) == ("rows", facts["validation_targets"])


def test_loop2_shares_what_it_says():
    paper = arms("loop2")
    assert tied_to(paper["tieattn16"].model) == {(int(layer), "attn"): owner for layer, owner in FACTS["loop2"]["tieattn16"].items()}
    assert tied_to(paper["tiemlp16"].model) == {(int(layer), "mlp"): owner for layer, owner in FACTS["loop2"]["tieattn16"].items()}
    assert [paper[name].model.bigram_table for name in ("ng2_in", "loop2_ng", "l16_ng", "base8")] == [
        *[FACTS["loop2"]["bigram_rows"]] * 3,
        0,
    ]
    assert (model_hidden(paper["w10"].model), paper["w10"].model.value_embeddings) == (5120, "all")


def test_loop2_ships_the_controls_that_were_not_run():
    paper = arms("loop2")
    assert (paper["rr_inplace"].model.schedule, paper["rr_identity"].model.schedule) == ("1..4 4 5..8", "1..8 8")
    assert {name: arm.run_if for name, arm in paper.items() if arm.run_if} == dict.fromkeys(("rr_inplace", "rr_identity"),
                                                                                          "gain(rr1, unit=bits) >= 0.003")  # fmt: skip
    for name in ("base8_2x", "loop2_2x", "l16_2x"):
        assert recipe_steps(paper[name].recipe).tokens == 2 * FACTS["loop2"]["tokens"]
    assert unique_layers(arm_applications(paper["l16_rr1"].model)) == 16
    assert effective_depth(arm_applications(paper["l16_rr1"].model)) == 17


def test_hybrid_has_the_five_published_arms():
    facts, published = FACTS["hybrid"], costs("hybrid")
    paper = arms("hybrid")
    assert list(paper)[:5] == [row["arm"] for row in published["arms"]]
    for row in published["arms"]:
        arm = paper[row["arm"]]
        applications = arm_applications(arm.model)
        written = published["schedules"][row["arm"]]
        assert arm_schedule(arm.model).text == written["schedule"]
        assert effective_depth(applications) == row["effective_depth"]
        assert unique_layers(applications) == row["unique_layers"] == len(arm.model.layers)
        assert arm.model.layers == arm.model.__class__(layers=written["layers"], d_model=64, heads=4).layers
        assert (arm.model.residual_scaling == "effective") == row["arm"].startswith("Recursive")
        steps = recipe_steps(arm.recipe)
        assert (steps.tokens, steps.steps, steps.tokens_per_step) == (facts["tokens"], facts["steps"], facts["tokens_per_step"])
        assert (arm.seeds[0], vocab(arm.data.tokenizer)) == (facts["seed"], facts["vocab"])
        assert len(arm.seeds) == (1 if row["arm"] == "GQA baseline" else 3)
    study = load_study("hybrid")
    measured = points(study.evaluate.every, steps.tokens, steps.tokens_per_step)
    assert set(points("100M", steps.tokens, steps.tokens_per_step)) < set(measured)  # where the source has its checkpoints
    dense = [at for at in measured if 100e6 < at < 200e6]  # it saw the arms cross between these two
    assert len(dense) >= 19 and max(b - a for a, b in itertools.pairwise(dense)) < 5.2e6
    assert study.evaluate.targets == facts["windows"] * 2048
    assert study.checkpoints.keep == "all"


@pytest.mark.parametrize("size", ["paper", "desk"])
def test_hybrid_ships_the_follow_ups_that_its_author_asks_for(size):
    found = arms("hybrid", size)
    looped = found["Recursive 2:1"].model

    def differs(one: str, other: str) -> set[str]:
        pair = [found[name].model.model_dump() for name in (one, other)]
        return {key for key in pair[0] if pair[0][key] != pair[1][key]}

    # tying and scaling, two by two: each step changes one thing
    assert differs("GDN 2:1", "Recursive 2:1 unscaled") == {"schedule"} == differs("GDN 2:1 scaled", "Recursive 2:1") - {"residual_scaling"}
    assert differs("GDN 2:1", "GDN 2:1 scaled") == {"residual_scaling"} == differs("Recursive 2:1", "Recursive 2:1 unscaled")
    scaling = [residual_factor(found[name].model, arm_applications(found[name].model)) for name in ("GDN 2:1 scaled", "Recursive 2:1")]
    assert scaling[0] == scaling[1] != 1
    # one to four passes
    depth = {name: effective_depth(arm_applications(found[f"Recursive 2:1{name}"].model)) for name in (" x1", " x2", "", " x4")}
    assert depth == {" x1": 6, " x2": 12, "": 18, " x4": 24}
    # equal FLOPs, by depth and by tokens
    cost = {name: account(found[name], vocab(found[name].data.tokenizer)) for name in ("Recursive 2:1", "Untied 18", "GDN 2:1 longer")}
    wanted = cost.pop("Recursive 2:1")
    for ledger in cost.values():
        assert abs(ledger.flops_total / wanted.flops_total - 1) < 1e-3 and not any(row.pass_ > 1 for row in ledger.applications)
    # less text at the same tokens, each pair on the same text
    shares = {name.removeprefix("GDN 2:1"): arm.data.training_share for name, arm in found.items() if name.startswith("GDN 2:1")}
    swept = {name: share for name, share in shares.items() if share != found["GDN 2:1"].data.training_share}
    assert len(swept) == 2
    for name, share in swept.items():
        pair = found[f"GDN 2:1{name}"], found[f"Recursive 2:1{name}"]
        assert pair[1].data == pair[0].data and pair[1].against == pair[0].name and pair[1].model == looped
        assert pair[0].recipe == pair[1].recipe == found["GDN 2:1"].recipe and share == pair[0].data.training_share
    assert found["Recursive 3:1"].against == "GDN 3:1"


@pytest.mark.parametrize("size", ["paper", "desk"])
def test_hybrid_vocabulary_is_the_pair_of_hybrid_over_tokenizers(size):
    pair, found = arms("hybrid", size), arms("hybrid-vocabulary", size)
    assert len({arm.data.tokenizer.bpe for arm in found.values()}) == len(found) / 2 >= 3
    for name, arm in found.items():
        looped = name.startswith("Recursive")
        assert arm.model == pair["Recursive 2:1" if looped else "GDN 2:1"].model
        assert arm.recipe == pair["GDN 2:1"].recipe
        if looped:
            assert found[arm.against].data == arm.data and found[arm.against].model == pair["GDN 2:1"].model
    assert load_study("hybrid-vocabulary", size).evaluate.windows == "documents"


def test_ilr_has_every_map_for_every_kind_of_positions():
    facts, published = FACTS["ilr"], costs("ilr")
    paper = arms("ilr")
    assert len(published["applications"]) == 11
    for label, positions in facts["positions"].items():
        for reuse, applications in published["applications"]:
            name = f"{label}-" + ("".join(map(str, reuse)) if isinstance(reuse, list) else {"block-r2": "block2"}.get(reuse, reuse))
            model = paper[name].model
            assert model.positions == positions
            assert effective_depth(arm_applications(model)) == applications
            assert (model.inject == "add") == (reuse == "block-r2")
            if isinstance(reuse, list):
                assert [sum(one.layer == layer for one in arm_applications(model)) for layer in range(1, 5)] == reuse
        assert paper[f"{label}-block2-bare"].model.inject == "none"
        assert paper[f"{label}-block2-bare"].model.schedule == paper[f"{label}-block2"].model.schedule
        assert effective_depth(arm_applications(paper[f"{label}-deep8"].model)) == len(paper[f"{label}-deep8"].model.layers) == 8
        assert [one.layer for one in arm_applications(paper[f"{label}-1114"].model)] == [1, 2, 3, 4, 4, 4, 4]


@pytest.mark.parametrize(("arm", "kind"), [("rope-baseline", "small"), ("large-rope-baseline", "large"), ("large-alibi-12111111", "large")])
def test_ilr_follows_the_published_recipe(arm, kind):
    facts, shape, found = FACTS["ilr"], costs("ilr")[kind], arms("ilr")[arm]
    model, recipe = found.model, found.recipe
    assert (len(model.layers), model.d_model, model.heads, model_hidden(model)) == (
        shape["layers"],
        shape["d_model"],
        shape["heads"],
        4 * shape["d_model"],
    )
    assert (vocab(found.data.tokenizer), recipe.context, model.tie_embeddings, model.norm.weight) == (
        shape["vocab"],
        shape["context"],
        True,
        True,
    )
    assert (recipe.lr, recipe.lr_schedule.warmup, recipe.tokens, recipe.batch) == (
        facts[kind]["lr"],
        facts[kind]["warmup"],
        facts[kind]["tokens"],
        facts["tokens_per_step"],
    )
    assert recipe.lr_schedule.shape == "cosine"
    assert recipe.lr_schedule.warmup + recipe.lr_schedule.decay == pytest.approx(1)
    small = facts["small"]
    assert (list(recipe.betas), recipe.eps, recipe.weight_decay, recipe.clip) == (
        small["betas"],
        small["eps"],
        small["weight_decay"],
        small["clip"],
    )
    assert {group.kind for group in optimizer_groups(recipe, model).values()} == {"adamw"}
    assert facts["seed"] in found.seeds


def test_ilr_large_maps_wait_for_the_rule():
    paper = arms("ilr")
    for label in FACTS["ilr"]["positions"]:
        assert paper[f"large-{label}-baseline"].contingent is None
        assert f"{label}-1211" in paper[f"large-{label}-12111111"].contingent
        assert paper[f"large-{label}-12111111"].model.schedule == str(FACTS["ilr"]["large"]["map"]).replace(" ", "")


@pytest.mark.parametrize("size", ["paper", "desk"])
def test_ilr_budgets_of_equal_flops_are_equal_to_half_a_step(size):
    """Training FLOPs by 6 x (matrices applied + unembedding) + 12 x d_model x mean causal keys, times tokens."""

    def cost(arm):
        width, context = arm.model.d_model, arm.recipe.context
        per_application = 6 * (4 * width**2 + 3 * width * model_hidden(arm.model)) + 12 * width * (context + 1) / 2
        return effective_depth(arm_applications(arm.model)) * per_application + 6 * width * vocab(arm.data.tokenizer)

    found = arms("ilr", size)
    base = found["rope-baseline"]
    budget = cost(base) * recipe_steps(base.recipe).tokens
    equal = {name: arm for name, arm in found.items() if name.endswith("-equal-flops")}
    assert len(equal) == (9 if size == "paper" else 2)
    for arm in equal.values():
        steps = recipe_steps(arm.recipe)
        assert steps.tokens == arm.recipe.tokens
        assert abs(cost(arm) * steps.tokens - budget) <= cost(arm) * steps.tokens_per_step / 2


def test_phi_plans_every_run_of_the_published_grid():
    """116 runs, each within 1% of its FLOPs by the published convention, and the parameters that the law counts, all by closed forms."""
    shared = Path(__file__).parents[3] / "shared" / "golden" / "phi.json"
    if not shared.exists():
        pytest.skip("the published grid is not here")
    published = json.loads(shared.read_text())
    grid = published["iso_depth_grid"]
    found = arms("phi")
    wanted = [(budget, 64 * s, r) for budget, widths in grid["budgets_flops_and_s"].items() for s in widths for r in published["r"]]
    assert list(found) == [f"d{width} r{r} C{budget}" for budget, width, r in wanted] and len(found) == 116
    for (budget, width, r), arm in zip(wanted, found.values(), strict=True):
        model, steps = arm.model, recipe_steps(arm.recipe)
        applications = arm_applications(model)
        assert (effective_depth(applications), len(model.layers)) == (grid["effective_layers"], 4 + 16 // r)
        assert (head_dim(model), model.heads, vocab(arm.data.tokenizer), model.tie_embeddings) == (128, width // 128, 32_064, False)
        assert (model.inject, model.pass_norm) == (("linear", True) if r > 1 else ("none", False))
        assert (arm.recipe.context, steps.tokens_per_step) == (grid["context"], grid["tokens_per_step"])
        block, injection, head = 12 * width**2, 2 * width**2 * (r > 1), 32_064 * width
        once, repeated = 4 * block, 16 // r * block + injection
        ledger = account(arm, 32_064)
        assert ledger.params_nonembedding == once + repeated
        flops = 6 * (once + head) + 6 * r * repeated + 12 * width * 2048 * 20
        assert ledger.flops_per_token_trainer == flops
        assert abs(flops * steps.tokens / float(budget) - 1) < 0.01
    shape = published["worked_example"]["note"]  # at d 2048: N_once 201.3M, N_rec 209.7M
    assert f"N_once {4 * 12 * 2048**2 / 1e6:.1f}M" in shape and f"N_rec {(4 * 12 + 2) * 2048**2 / 1e6:.1f}M" in shape


def test_phi_desk_and_its_diagnoses_share_the_runs_that_no_treatment_changes():
    desk = arms("phi", "desk")
    widths, tokens = {arm.model.d_model for arm in desk.values()}, {recipe_steps(arm.recipe).tokens for arm in desk.values()}
    assert len(widths) >= 4 and {arm.model.passes or 1 for arm in desk.values()} == {1, 2, 4} and len(tokens) >= 3
    assert {effective_depth(arm_applications(arm.model)) for arm in desk.values()} == {6}
    same = {1: True, 2: False, 4: False}
    cut = arms("phi", "desk-truncated")
    assert list(cut) == list(desk)
    for name, arm in cut.items():
        assert (run_identity(arm, 1, "") == run_identity(desk[name], 1, "")) == same[arm.model.passes or 1]


@pytest.mark.parametrize("size", ["paper", "desk"])
def test_phi_diagnoses_change_one_key(size):
    plain = arms("phi", size)
    for suffix, key, value in (("truncated", "backprop", "half"), ("streams", "streams", 2)):
        treated = arms("phi", f"{size}-{suffix}")
        assert list(treated) == list(plain)
        for name, arm in treated.items():
            pair = plain[name].model.model_dump(), arm.model.model_dump()
            differs = {one for one in pair[0] if pair[0][one] != pair[1][one]}
            assert differs == (set() if suffix == "truncated" and arm.model.passes is None else {key}) and pair[1][key] in (value, None)
            tokens = [recipe_steps(one.recipe).tokens for one in (plain[name], arm)]
            assert tokens[0] == tokens[1] if size == "desk" else (tokens[1] > tokens[0]) == ("backprop" in differs)
            if size == "paper":
                budget = float(name.rpartition("C")[2])
                assert abs(account(arm, 32_064).flops_per_token_trainer * tokens[1] / budget - 1) < 0.01


def test_quickstart_asks_its_question():
    found = arms("quickstart")
    assert {name: effective_depth(arm_applications(arm.model)) for name, arm in found.items()} == {
        "plain": 4,
        "early": 8,
        "twice": 8,
        "deep": 8,
    }
    assert {name: unique_layers(arm_applications(arm.model)) for name, arm in found.items()} == {
        "plain": 4,
        "early": 4,
        "twice": 4,
        "deep": 8,
    }
    assert {arm.seeds for arm in found.values()} == {(1, 2)}
    assert len({arm.recipe.model_dump_json() for arm in found.values()}) == 1
