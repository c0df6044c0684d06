"""The choice of a device, and the line that says what was chosen."""

from __future__ import annotations

import sys
import sysconfig

import pytest
import torch

from ostinato.errors import TrainingError
from ostinato.train.machine import Machine, attention, choose


def test_auto_takes_what_is_there():
    machine = choose("auto", "float32", None, False)
    assert machine.device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert machine.threads == torch.get_num_threads()
    assert machine.compute_dtype is None
    assert choose("cpu", "bfloat16", None, False).compute_dtype is torch.bfloat16


@pytest.mark.parametrize(("device", "threads", "what"), [("tpu", None, "device 'tpu'"), ("cpu", 0, "0 threads")])
def test_choices_that_cannot_be(device, threads, what):
    with pytest.raises(TrainingError, match=what):
        choose(device, "float32", threads, False)


def test_compiling_on_a_cpu_takes_a_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(TrainingError, match=r"without the C\+\+ compiler no-such-compiler[\s\S]*--no-compile"):
        choose("cpu", "float32", None, True)
    assert not choose("cpu", "float32", None, False).compiled
    monkeypatch.setenv("CXX", sys.executable)  # any program that is there
    monkeypatch.setattr(sysconfig, "get_path", lambda name: "/nowhere")
    with pytest.raises(TrainingError, match=r"without Python's headers \(/nowhere/Python.h\)"):
        choose("cpu", "float32", None, True)
    monkeypatch.undo()
    monkeypatch.setattr("ostinato.train.machine.need_compiler", lambda *given: None)
    assert choose("cpu", "float32", None, True).compiled


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_gpu_that_is_not_there():
    with pytest.raises(TrainingError, match="no GPU"):
        choose("cuda", "float32", None, False)


def test_a_session_leaves_torch_as_it_found_it():
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with choose("cpu", "float32", threads + 1, False).session():
        assert torch.get_num_threads() == threads + 1
        assert torch.are_deterministic_algorithms_enabled()
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == (threads, strict)


def test_the_line_names_device_dtype_attention_kernels_and_threads(make_trainer):
    trainer = make_trainer()
    line = trainer.machine.line(trainer.decoder, 16, False, trainer.optimizers.kernels)
    for part in ("cpu", "1 of", "float32", "attention causal", "head chunked (never all logits)", "AdamW fused over", "Muon batched in",
                 "bit for bit"):  # fmt: skip
        assert part in line


@pytest.mark.parametrize(("layers", "said"), [(("gdn",), "; gated delta rule torch (not on CUDA); "),
                                             (("gdn", "gqa"), "; attention causal; gated delta rule torch (not on CUDA); ")])  # fmt: skip
def test_the_line_names_the_gated_delta_rule(make_trainer, small_arm, layers, said):
    trainer = make_trainer(small_arm(model={"layers": layers, "heads": 2}))
    assert said in trainer.machine.line(trainer.decoder, 16, False, trainer.optimizers.kernels)


@pytest.mark.parametrize(
    ("model", "compiled", "said"),
    [
        ({}, False, "attention backward"),
        ({"layers": ("gdn", "gqa"), "heads": 2}, False, "attention backward, running sums of the gated delta rule"),
        ({"layers": ("gdn",), "heads": 2}, True, "running sums of the gated delta rule, compiled kernels"),
        ({"family": "loop2", "windows": {"short": 4}}, True, "attention backward, compiled kernels, gradients of value tables"),
        ({"family": "loop2", "windows": {"short": 4}}, False, "attention backward"),
    ],
)
def test_on_a_gpu_the_line_says_what_does_not_repeat(make_trainer, small_arm, monkeypatch, model, compiled, said):
    trainer = make_trainer(small_arm(model=model))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    machine = Machine(torch.device("cuda"), "float32", 1, compiled)
    assert machine.line(trainer.decoder, 16, False, "").endswith(f"repeatable up to rounding ({said})")


def test_attention_is_named_by_window(make_trainer, small_arm):
    trainer = make_trainer(small_arm(model={"layers": 2, "windows": {"pattern": "SL", "short": 4}}))
    assert attention(trainer.decoder, 16, False) == "masked for windows of 4, causal for the whole context"
    assert attention(trainer.decoder, 16, True) == "masked"


@pytest.mark.parametrize(("dtype", "amx", "told"), [("bfloat16", False, True), ("bfloat16", True, False), ("float32", False, False)])
def test_the_line_says_what_bfloat16_costs_on_a_cpu(make_trainer, monkeypatch, dtype, amx, told):
    monkeypatch.setattr("ostinato.train.machine._has_amx", lambda: amx)
    trainer = make_trainer()
    line = choose("cpu", dtype, 1, False).line(trainer.decoder, 16, False, trainer.optimizers.kernels)
    assert ("this CPU has no AMX" in line) is told
