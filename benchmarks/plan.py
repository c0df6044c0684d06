"""Seconds of a training step as `ostinato plan` predicts them, against what the step takes: every arm of the shipped desk studies.

    python benchmarks/plan.py [--quick] [--json plan.json]

The machine is calibrated first. Then two processes, one thread each and at the same time, take steps of every arm in opposite order, and
of the shapes a, b and c; one process with two threads takes those of quickstart and of the shapes. Asked for: within 25%.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import SHAPES, Row, main

STUDIES = (("quickstart", None), ("loop2", "desk"), ("ilr", "desk"), ("hybrid", "desk"))
WITHIN = 1.25


def arms(names: tuple) -> dict:
    """Arms by name; of those that take the same step, the first."""
    from ostinato.study import load_study
    from ostinato.study.records import Arm, Data, Mlp, Model, Recipe, Tokenizer

    found, seen = {}, set()
    for study, size in names:
        for arm in load_study(study, size).arms:
            data = Data(tokenizer=arm.data.tokenizer, document_mask=arm.data.document_mask)
            same = arm.model_copy(update={"data": data})
            key = json.dumps([same.model.model_dump(), same.recipe.model_dump(exclude={"tokens"})], default=str)
            if key not in seen:
                seen.add(key)
                found[f"{study}/{arm.name}"] = same
    for name, shape in SHAPES.items():
        model = Model(layers=("gqa",) * shape.layers, d_model=shape.width, heads=shape.heads, mlp=Mlp(hidden=shape.hidden))
        recipe = Recipe(tokens=10**8, batch=shape.tokens, context=shape.context, optimizer="adamw", lr=1e-3)
        found[f"shape {name}"] = Arm(name=name, model=model, recipe=recipe, data=Data(tokenizer=Tokenizer(bpe=shape.vocab)), seeds=(1,))
    return found


def worker(threads: int, backwards: bool, quick: bool, names: tuple) -> None:
    """Print the seconds of a step of every arm, as JSON."""
    from ostinato.launch.probe import Numbers
    from ostinato.measure.speed import median_seconds
    from ostinato.study.derive import recipe_steps, vocab
    from ostinato.train.machine import choose
    from ostinato.train.trainer import Trainer

    machine = choose("cpu", "float32", threads, False)
    wanted, taken = arms(names), {}
    with machine.session():
        for name in reversed(wanted) if backwards else wanted:
            arm = wanted[name]
            size = vocab(arm.data.tokenizer)
            trainer = Trainer(arm, 1, Numbers.of(arm, size, recipe_steps(arm.recipe).tokens_per_step), machine)
            trainer.step()
            taken[name] = median_seconds(trainer.step, 0.1 if quick else 0.4)
    print(json.dumps(taken))


def measured(threads: int, at_once: int, quick: bool, names: tuple) -> dict[str, float]:
    """The less of processes that run at the same time: whatever else the machine does comes on top."""
    from ostinato.launch.process import worker_environment

    request = [[threads, index % 2 == 1, quick, names] for index in range(at_once)]
    started = [subprocess.Popen([sys.executable, __file__, "--worker", json.dumps(one)], stdout=subprocess.PIPE, text=True,
                                env=worker_environment(None, threads)) for one in request]  # fmt: skip
    said = [json.loads(process.communicate()[0]) for process in started]
    return {name: min(one[name] for one in said) for name in said[0]}


def measure(quick: bool) -> list[Row]:
    """One row for each pace: the worst of the predictions, with the median and every arm that is off by more than a tenth."""
    from ostinato.launch.calibrate import calibrate
    from ostinato.ledger.seconds import step_seconds
    from ostinato.study.derive import vocab

    with tempfile.TemporaryDirectory() as folder:
        made = calibrate("cpu", cache=Path(folder))
    cores, rows = made.calibration.cores, []
    for threads, at_once, names in ((1, cores, STUDIES), (cores, 1, STUDIES[:1])):
        names = names[:1] if quick else names
        took, wanted = measured(threads, at_once, quick, names), arms(names)
        said = {name: step_seconds(made.calibration, arm, vocab(arm.data.tokenizer), threads) for name, arm in wanted.items()}
        ratios = {name: said[name] / took[name] for name in wanted}
        off = {name: max(ratio, 1 / ratio) for name, ratio in ratios.items()}
        worst = max(off, key=off.get)
        notes = {"median of predicted / measured": round(statistics.median(ratios.values()), 3),
                 "off by more than a tenth": ", ".join(f"{name} {ratios[name]:.2f}" for name in off if off[name] > 1.1) or "none",
                 "calibrated in": f"{made.seconds:.0f} s"}  # fmt: skip
        claim = f"plan, {at_once} x {threads} threads, {len(ratios)} arms, worst ({worst})"
        rows.append(Row(claim, said[worst], took[worst], "s a step", off[worst], WITHIN, True, "measured", notes))
    return rows


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        threads, backwards, quick, names = json.loads(sys.argv[2])
        worker(threads, backwards, quick, tuple(map(tuple, names)))
    else:
        os.environ.pop("OSTINATO_CACHE", None)
        main(measure, __doc__)
