"""AdamW and Muon against naive twins: three float64 steps, one matrix and one number at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ostinato.errors import StoreError
from ostinato.ledger.inventory import inventory
from ostinato.ledger.memory import optimizer_bytes
from ostinato.model.decoder import build
from ostinato.study import records
from ostinato.study.derive import optimizer_groups
from ostinato.study.families import with_family
from ostinato.train import muon as muon_module
from ostinato.train import schedules
from ostinato.train.groups import Group, assign
from ostinato.train.muon import Muon
from ostinato.train.optimizers import Optimizers
from ostinato.train.polar import COEFFICIENTS, gram, plain, polar
from ostinato.train.schedules import Settings
from ostinato.train.step import MicroBatch, accumulate

SHAPES = {"tall": (12, 5), "wide": (3, 8), "square": (6, 6), "second_square": (6, 6), "gate": (2, 8)}
STEPS = (
    Settings(rate=1.0, momentum=0.85, decay=1.0),
    Settings(rate=1.0, momentum=0.9, decay=0.75),
    Settings(rate=0.5, momentum=0.95, decay=0.5),
)


def draw(name: str, shape: tuple[int, ...], step: int = -1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(map(ord, name)) * 101 + step + 1)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def group(role: str, kind: str, names: list[str], shapes: dict, lr=0.02, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0) -> Group:
    tensors = tuple(torch.nn.Parameter(draw(name, shapes[name])) for name in names)
    return Group(role, kind, lr, betas, eps, weight_decay, tuple(names), tensors)


def feed(groups: tuple[Group, ...], step: int, without: set[str] = frozenset()) -> None:
    """Give every tensor the gradient that belongs to its name and the step."""
    for one in groups:
        for name, tensor in zip(one.names, one.tensors, strict=True):
            tensor.grad = None if name in without else draw(name, tuple(tensor.shape), step)


def values(groups: tuple[Group, ...]) -> dict[str, np.ndarray]:
    return {name: tensor.detach().numpy().copy() for one in groups for name, tensor in zip(one.names, one.tensors, strict=True)}


def run(groups: tuple[Group, ...], muon: records.Muon, without: dict[int, set[str]] | None = None) -> dict[str, np.ndarray]:
    optimizers = Optimizers(groups, muon)
    for number, settings in enumerate(STEPS):
        feed(groups, number, (without or {}).get(number, set()))
        optimizers.step(settings)
    return values(groups)


# --- the twins: numpy, one matrix at a time, straight from the definitions


def naive_polar(matrix: np.ndarray, steps: int) -> np.ndarray:
    x = matrix / (1.02 * math.sqrt((matrix**2).sum()) + 1e-6)
    for a, b, c in COEFFICIENTS[:steps]:
        if x.shape[0] <= x.shape[1]:
            gram = x @ x.T
            x = a * x + b * gram @ x + c * gram @ gram @ x
        else:
            gram = x.T @ x
            x = a * x + b * x @ gram + c * x @ gram @ gram
    return x


def naive_muon(
    weight: np.ndarray, gradients: list[np.ndarray], lr: float, weight_decay: float, muon: records.Muon, steps=STEPS
) -> np.ndarray:
    weight, first = weight.copy(), np.zeros_like(weight)
    by_row = weight.shape[0] >= weight.shape[1]
    second = np.zeros(weight.shape[0] if by_row else weight.shape[1])
    for gradient, at in zip(gradients, steps, strict=True):
        first = at.momentum * first + (1 - at.momentum) * gradient
        update = naive_polar(at.momentum * first + (1 - at.momentum) * gradient, muon.steps)
        if muon.second_moment is not None:
            norm, scaled = np.linalg.norm(update), update.copy()
            for index in range(len(second)):
                line = update[index] if by_row else update[:, index]
                second[index] = muon.second_moment * second[index] + (1 - muon.second_moment) * np.mean(line**2)
                if by_row:
                    scaled[index] = line / math.sqrt(max(second[index], 1e-10))
                else:
                    scaled[:, index] = line / math.sqrt(max(second[index], 1e-10))
            update = scaled * norm / max(np.linalg.norm(scaled), 1e-10)
        rate = lr * at.rate * math.sqrt(max(1, weight.shape[0] / weight.shape[1]))
        for place in np.ndindex(*weight.shape):
            decays = not muon.cautious or update[place] * weight[place] >= 0
            pull = rate * weight_decay * at.decay * weight[place] if decays else 0.0
            weight[place] -= rate * update[place] + pull
    return weight


def naive_adamw(weight: np.ndarray, gradients: list[np.ndarray], one: Group, steps=STEPS) -> np.ndarray:
    weight = weight.copy()
    (beta1, beta2), first, second = one.betas, np.zeros_like(weight), np.zeros_like(weight)
    for number, (gradient, at) in enumerate(zip(gradients, steps, strict=True), 1):
        for place in np.ndindex(*weight.shape):
            first[place] = beta1 * first[place] + (1 - beta1) * gradient[place]
            second[place] = beta2 * second[place] + (1 - beta2) * gradient[place] ** 2
            direction = (first[place] / (1 - beta1**number)) / (math.sqrt(second[place] / (1 - beta2**number)) + one.eps)
            weight[place] -= one.lr * at.rate * (direction + one.weight_decay * at.decay * weight[place])
    return weight


def gradients(name: str, shape: tuple[int, ...], steps=STEPS) -> list[np.ndarray]:
    return [draw(name, shape, number).numpy() for number in range(len(steps))]


# --- the comparisons


@pytest.mark.parametrize("cautious", [True, False])
@pytest.mark.parametrize("second_moment", [0.95, None])
@pytest.mark.parametrize("polar_steps", [5, 3])
@pytest.mark.parametrize("weight_decay", [0.2, 0.0])
def test_muon_equals_its_naive_twin_matrix_by_matrix(cautious, second_moment, polar_steps, weight_decay):
    muon = records.Muon(cautious=cautious, second_moment=second_moment, steps=polar_steps)
    names = ["tall", "square", "wide", "second_square"]
    after = run((group("matrix", "muon", names, SHAPES, lr=0.04, weight_decay=weight_decay),
                 group("gate", "muon", ["gate"], SHAPES, lr=0.04, weight_decay=weight_decay)), muon)  # fmt: skip
    for name in [*names, "gate"]:
        shape = SHAPES[name]
        twin = naive_muon(draw(name, shape).numpy(), gradients(name, shape), 0.04, weight_decay, muon)
        np.testing.assert_allclose(after[name], twin, rtol=1e-11, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("betas", "eps", "weight_decay"), [((0.8, 0.95), 1e-10, 0.0), ((0.96, 0.95), 1e-10, 0.0), ((0.9, 0.999), 1e-8, 0.01)]
)
def test_adamw_equals_its_naive_twin_number_by_number(betas, eps, weight_decay):
    shapes = {"table": (7, 4), "scalars": (5,), "convolution": (3, 1, 4)}
    one = group("embedding", "adamw", list(shapes), shapes, lr=0.3, betas=betas, eps=eps, weight_decay=weight_decay)
    after = run((one,), records.Muon())
    for name, shape in shapes.items():
        np.testing.assert_allclose(after[name], naive_adamw(draw(name, shape).numpy(), gradients(name, shape), one), rtol=1e-11, atol=1e-12)


def test_groups_do_not_touch_each_other():
    shapes = SHAPES | {"scalars": (4,), "table": (9, 3)}
    together = run((group("matrix", "muon", ["tall", "square"], shapes), group("embedding", "adamw", ["table"], shapes, lr=0.6),
                    group("x0_scalar", "adamw", ["scalars"], shapes, lr=0.5, betas=(0.96, 0.95))), records.Muon())  # fmt: skip
    alone = run((group("matrix", "muon", ["tall"], shapes),), records.Muon())
    alone |= run((group("embedding", "adamw", ["table"], shapes, lr=0.6),), records.Muon())
    for name, value in alone.items():
        np.testing.assert_array_equal(together[name], value)


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
@pytest.mark.parametrize("second_moment", [0.95, None])
def test_the_state_is_as_large_as_the_ledger_says(optimizer, second_moment):
    """But for one number a tensor: the count of AdamW's updates."""
    model = records.Model(layers=("gqa",) * 2, d_model=32, heads=2)
    recipe = records.Recipe(optimizer=optimizer, muon=records.Muon(second_moment=second_moment))
    rows = inventory(model, 40, 8)
    roles = {row.name: row.role for row in rows}
    state = Optimizers(assign(build(model, 40, 8, seed=1), roles, optimizer_groups(recipe, model)), recipe.muon).state()
    size = sum(tensor.numel() * tensor.element_size() for name, tensor in state.items() if not name.startswith("adamw.step/"))
    assert size == optimizer_bytes(rows, recipe, model)


@pytest.mark.parametrize("second_moment", [0.95, None])
def test_a_matrix_without_a_gradient_keeps_its_value_and_its_state(second_moment):
    names = ["square", "second_square"]
    muon = records.Muon(second_moment=second_moment)
    after = run((group("matrix", "muon", names, SHAPES, weight_decay=0.2),), muon, without={1: {"second_square"}})
    both = naive_muon(draw("square", (6, 6)).numpy(), gradients("square", (6, 6)), 0.02, 0.2, muon)
    seen = [gradients("second_square", (6, 6))[index] for index in (0, 2)]
    skipped = naive_muon(draw("second_square", (6, 6)).numpy(), seen, 0.02, 0.2, muon, steps=(STEPS[0], STEPS[2]))
    np.testing.assert_allclose(after["square"], both, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(after["second_square"], skipped, rtol=1e-11, atol=1e-12)


def test_never_a_gradient_never_a_change():
    shapes = {"unused": (6, 6), "unused_norm": (4,)}
    groups = (
        group("matrix", "muon", ["unused"], shapes, weight_decay=0.5),
        group("norm", "adamw", ["unused_norm"], shapes, weight_decay=0.5),
    )
    after = run(groups, records.Muon(), without={0: set(shapes), 1: set(shapes), 2: set(shapes)})
    for name, shape in shapes.items():
        np.testing.assert_array_equal(after[name], draw(name, shape).numpy())


def test_polar_brings_singular_values_near_one_and_leaves_zero_alone():
    matrices = torch.stack([draw("a", (20, 12)), 1e-4 * draw("b", (20, 12)), torch.zeros(20, 12, dtype=torch.float64)])
    values = torch.linalg.svdvals(polar(matrices))
    assert (values[:2] - 1).abs().max() < 0.2
    assert values[2].abs().max() == 0


def test_a_saved_state_goes_on_bit_for_bit():
    shapes = SHAPES | {"table": (9, 3)}

    def fresh() -> tuple[Group, ...]:
        return (group("matrix", "muon", ["tall", "square", "second_square"], shapes), group("embedding", "adamw", ["table"], shapes))

    whole = run(fresh(), records.Muon())
    before, after = fresh(), fresh()
    first, second = Optimizers(before, records.Muon()), Optimizers(after, records.Muon())
    for number, settings in enumerate(STEPS[:2]):
        feed(before, number)
        first.step(settings)
    with torch.no_grad():
        for old, new in zip(before, after, strict=True):
            for source, tensor in zip(old.tensors, new.tensors, strict=True):
                tensor.copy_(source)
    second.load({name: tensor.clone() for name, tensor in first.state().items()})
    feed(after, 2)
    second.step(STEPS[2])
    for name, value in values(after).items():
        np.testing.assert_array_equal(value, whole[name])


@pytest.mark.parametrize("change", ["missing", "unknown", "shape"])
def test_a_state_that_does_not_fit_is_refused(change):
    groups = (group("matrix", "muon", ["square"], SHAPES), group("gate", "adamw", ["gate"], SHAPES))
    optimizers = Optimizers(groups, records.Muon())
    for one in groups:
        for tensor in one.tensors:
            tensor.grad = torch.ones_like(tensor)
    optimizers.step(STEPS[0])
    state = {name: tensor.clone() for name, tensor in optimizers.state().items()}
    if change == "missing":
        del state["adamw.first/gate"]
    elif change == "unknown":
        state["adamw.first/other"] = torch.zeros(1)
    else:
        state["muon.momentum/square"] = torch.zeros(2, 2)
    with pytest.raises(StoreError, match="does not fit at"):
        Optimizers(groups, records.Muon()).load(state)


def test_three_steps_of_the_published_loop2_recipe_group_by_group():
    """A real model in float64, every role of the published loop2 recipe, real gradients; each tensor against the twin of its group."""
    model = records.Model.model_validate(with_family({"family": "loop2", "layers": 2, "d_model": 32, "heads": 2, "bigram_table": 16,
                                                      "windows": {"short": 4}, "schedule": "1..2 1..2"}))  # fmt: skip
    tables = {"lr": 0.6, "width_base": 768, "weight_decay": 0}
    recipe = records.Recipe(
        tokens=48, batch=16, context=8, optimizer="muon", lr=0.04, betas=(0.8, 0.95), eps=1e-10, weight_decay=0.2, decay_to_zero=True,
        groups={"head": {"lr": 0.004, "width_base": 768, "weight_decay": 0}, "embedding": tables, "value_table": tables,
                "bigram_table": tables, "residual_scalar": {"lr": 0.005, "weight_decay": 0},
                "x0_scalar": {"lr": 0.5, "betas": (0.96, 0.95), "weight_decay": 0}},
        muon={"momentum_start": 0.85, "momentum_steps": 4})  # fmt: skip
    decoder = build(model, 40, 8, seed=1, dtype=torch.float64)
    roles = {row.name: row.role for row in inventory(model, 40, 8)}
    groups = assign(decoder, roles, optimizer_groups(recipe, model))
    optimizers = Optimizers(groups, recipe.muon)
    before = values(groups)
    seen = {name: [] for name in before}
    at = [schedules.settings(recipe, step * 16, 16, 48) for step in range(3)]
    generator = torch.Generator().manual_seed(5)
    for settings in at:
        rows = torch.randint(0, 40, (2, 9), generator=generator)
        optimizers.clear_gradients()
        accumulate(decoder, [MicroBatch(rows[:, :-1], rows[:, 1:])], optimizers.tensors)
        for name, tensor in decoder.named_parameters():
            seen[name].append(tensor.grad.numpy().copy())
        optimizers.step(settings)
    after = values(groups)
    assert {group.role for group in groups} == {
        "matrix",
        "gate",
        "embedding",
        "head",
        "value_table",
        "bigram_table",
        "residual_scalar",
        "x0_scalar",
    }
    for one in groups:
        for name in one.names:
            if one.kind == "muon":
                twin = naive_muon(before[name], seen[name], one.lr, one.weight_decay, recipe.muon, at)
            else:
                twin = naive_adamw(before[name], seen[name], one, at)
            np.testing.assert_allclose(after[name], twin, rtol=1e-9, atol=1e-11, err_msg=f"{one.role}: {name}")
            assert name.endswith("gate.weight") or np.abs(after[name] - before[name]).max() > 1e-6, name


def spectrum(rows: int, columns: int, values: torch.Tensor) -> torch.Tensor:
    """A stack of one matrix, float64, with these singular values."""
    draw = torch.Generator().manual_seed(1)
    sides = [torch.linalg.qr(torch.randn(n, len(values), generator=draw, dtype=torch.float64))[0] for n in (rows, columns)]
    return ((sides[0] * values) @ sides[1].mT)[None]


@pytest.mark.parametrize("shape", [(48, 130), (130, 48), (256, 400), (400, 257), (256, 256)])
@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_both_forms_of_the_polar_iteration_are_the_same_polynomials(shape, steps):
    """In float64 to rounding, whatever the panels; in float32 the gram form is as near to that as the plain form is."""
    number = torch.arange(1, min(shape) + 1, dtype=torch.float64)
    for values in (number**-1, 10 ** (-6 * number / len(number)), torch.where(number < 9, 1.0, 1e-4)):
        matrix = spectrum(*shape, values)
        exact = torch.from_numpy(naive_polar(matrix[0].numpy(), steps))
        scaled = matrix / (1.02 * matrix.norm() + 1e-6)
        for form in (gram, plain):
            assert (form(scaled, steps)[0] - exact).norm() < 1e-8 * exact.norm()
        off = [((form(scaled.float(), steps)[0].double() - exact).norm() / exact.norm()).item() for form in (gram, plain)]
        assert off[0] < max(1e-5, 4 * off[1])


def test_a_stack_in_parts_moves_every_matrix_as_it_would_alone(monkeypatch):
    monkeypatch.setattr(muon_module, "CACHED", 3 * 6 * 4)
    weights = [torch.nn.Parameter(torch.randn(6, 4, generator=torch.Generator().manual_seed(seed))) for seed in range(7)]
    alone = [torch.nn.Parameter(weight.detach().clone()) for weight in weights]
    for weight, twin in zip(weights, alone, strict=True):
        weight.grad = twin.grad = torch.randn(6, 4, generator=torch.Generator().manual_seed(len(alone)))
    group = Group("matrix", "muon", 0.02, (0.0, 0.0), 0.0, 0.1, tuple("abcdefg"), tuple(weights))
    optimizer = Muon([group], records.Muon())
    assert sorted(len(stack.names) for stack in optimizer.stacks) == [2, 2, 3]
    optimizer.step(1.0, 0.95, 1.0)
    for name, weight, twin in zip("abcdefg", weights, alone, strict=True):
        Muon([Group("matrix", "muon", 0.02, (0.0, 0.0), 0.0, 0.1, (name,), (twin,))], records.Muon()).step(1.0, 0.95, 1.0)
        torch.testing.assert_close(weight, twin, rtol=1e-6, atol=1e-7)
