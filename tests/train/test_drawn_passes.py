"""Passes drawn every step: the gradient of the step's own number, resume to the bit, and no more graphs however it varies."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from ostinato.ledger import account
from ostinato.model import naive
from ostinato.model.depth import at_passes
from ostinato.study.draws import always, drawn, planned
from ostinato.study.fingerprint import run_fingerprint
from ostinato.study.records import Passes
from ostinato.train import checkpoints

DRAW = Passes(uniform=(1, 4))
CORE = {"schedule": "(1..2)x{r}", "inject": "linear", "pass_norm": True, "backprop": 2, "passes": DRAW}


@pytest.fixture
def trainer(make_trainer, small_arm):
    """trainer() -> of the small arm with drawn passes."""

    def make():
        arm = small_arm()
        return make_trainer(arm.model_copy(update={"model": arm.model.model_copy(update={**CORE, "layers": ("gqa", "gqa")})}))

    return make


def test_a_step_runs_its_own_number_of_passes(trainer):
    one = trainer()
    lengths = [len(one.of_step(step).applications) for step in range(8)]
    assert lengths == [2 * drawn(DRAW, 1, step) for step in range(8)] and len(set(lengths)) > 2
    assert len(one.decoder.applications) == 6, "as it is measured: at the middle"
    assert all(mine is own for mine, own in zip(one.of_step(0).parameters(), one.decoder.parameters(), strict=True))


def test_resume_is_exact(trainer, tmp_path):
    """Two steps, a checkpoint, another trainer, two more steps: the losses and weights of four steps in one."""
    whole, first, second = trainer(), trainer(), trainer()
    losses = [whole.step().loss for _ in range(4)]
    assert [first.step().loss for _ in range(2)] == losses[:2]
    second.load(checkpoints.save(tmp_path, 2, first.tokens, first.decoder, first.optimizers.state(), {}))
    assert [second.step().loss for _ in range(2)] == losses[2:]
    assert all(torch.equal(one, other) for one, other in zip(whole.decoder.parameters(), second.decoder.parameters(), strict=True))


@pytest.mark.parametrize("passes", [1, 2, 3, 4])
def test_the_gradient_is_that_of_a_naive_twin(small_model, small_decoder, passes):
    decoder = small_decoder(small_model(layers=3, **{**CORE, "schedule": "1 (2)x{r} 3"}))
    tokens, pull = torch.tensor([[3, 1, 4, 1, 5]]), torch.linspace(-1, 1, 55, dtype=torch.float64).view(1, 5, 11)
    weights = {name: tensor.detach().clone().requires_grad_() for name, tensor in decoder.named_parameters()}
    (at_passes(decoder, passes)(tokens) * pull).sum().backward()
    twin = naive.logits(always(decoder.model, passes), weights, tokens[0].tolist(), 8, groups=[(1, 1, passes)])
    (twin * pull[0]).sum().backward()
    for name, parameter in decoder.named_parameters():
        torch.testing.assert_close(parameter.grad, weights[name].grad, rtol=1e-10, atol=1e-10, msg=name)


def test_the_number_of_graphs_does_not_grow_with_passes(small_model, small_decoder):
    decoder = small_decoder(small_model(**CORE), compiled=True)
    decoder.compiled.backend = counter = CompileCounterWithBackend("aot_eager")
    rows, graphs = torch.arange(14).view(2, 7) % 11, []
    for passes in (1, 4, 2, 7, 3, 12):
        at_passes(decoder, passes).losses(rows, rows).sum().backward()
        graphs.append(sum(len(graph.graph.nodes) > 0 for graph in counter.graphs))
    assert graphs[1] <= 7 and graphs[2:] == [graphs[1]] * 4


def test_what_they_cost(trainer):
    """Expected FLOPs from the probabilities, the total from the very steps; a run is known by the draw."""
    arm = trainer().arm.model_copy(update={"seeds": (1, 2)})

    def fixed(passes):
        return account(arm.model_copy(update={"model": always(arm.model, passes)}), 300)

    found, each = account(arm, 300), {passes: fixed(passes) for passes in range(1, 5)}
    assert found.flops_per_token == pytest.approx(sum(one.flops_per_token for one in each.values()) / 4)
    counts = planned(DRAW, 1, found.steps) + planned(DRAW, 2, found.steps)
    exact = sum(count * each[passes].flops_per_token * found.tokens_per_step for passes, count in counts.items()) / 2
    assert found.flops_total == pytest.approx(exact, rel=1e-12)
    assert found.memory == each[max(counts)].memory and found.params_total == each[3].params_total
    assert found.effective_depth == 6 and found.flops_forward_per_token == each[3].flops_forward_per_token
    names = {run_fingerprint(one.arm, 1, "data") for one in (found, *each.values())}
    assert len(names) == 5
