"""The course of every run over training, from the store: validation losses at evaluation points, training losses, gains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ostinato.analysis import ArmResult, crossing
from ostinato.report.figures import Curve, Point, thinned
from ostinato.report.looks import Look
from ostinato.store import RunFolder
from ostinato.store.losses import rates
from ostinato.study import recipe_steps
from ostinato.study.records import Study


@dataclass(frozen=True)
class Course:
    """One run. budget: the tokens it is to train on.

    validation: {tokens: (nats a token, id of the targets)}; training: (tokens, nats a token) of every step.
    """

    arm: str
    seed: int
    budget: int
    validation: Mapping[int, tuple[float, str]]
    training: tuple[Point, ...]


def courses(study: Study, folders: Mapping[tuple[str, int], RunFolder], part: str = "validation") -> list[Course]:
    """The course of every run that has begun, in the order of the study. Raises StoreError when a stored file is torn."""
    found = []
    for arm in study.arms:
        for seed in arm.seeds:
            folder = folders.get((arm.name, seed))
            if folder is None or not folder.exists():
                continue
            points = {}
            for name, tokens in folder.measured():
                if name == part:
                    footer = folder.read_loss_summary(part, tokens)
                    nats = rates(footer["sum_nats"], footer["targets"], footer["bytes"])["nats"]
                    if nats is not None:
                        points[tokens] = (nats, footer["target_id"])
            steps = folder.steps()
            logged = zip(steps["tokens"].to_pylist(), steps["loss"].to_pylist(), strict=True)
            training = tuple((float(tokens), loss) for tokens, loss in logged if loss is not None and math.isfinite(loss))
            found.append(Course(arm.name, seed, recipe_steps(arm.recipe).tokens, points, training))
    return found


def mean(lines: Sequence[Sequence[Point]]) -> tuple[Point, ...]:
    """The mean of the lines that reach furthest, where all of these have a point: as in the table, a run that lags is left out."""
    furthest = max((line[-1][0] for line in lines if line), default=0.0)
    lines = [line for line in lines if line and line[-1][0] == furthest]
    shared = set.intersection(*({x for x, _ in line} for line in lines)) if lines else set()
    at = [dict(line) for line in lines]
    return tuple((x, math.fsum(line[x] for line in at) / len(at)) for x in sorted(shared))


Lines = Mapping[str, list[tuple[Point, ...]]]


def _curves(lines: Lines, looks: Mapping[str, Look], scale: Mapping[str, float] | None = None) -> list[Curve]:
    found = []
    for arm, each in lines.items():
        factor = scale[arm] if scale else 1.0
        drawn = [tuple((x * factor, y) for x, y in line) for line in each if line]
        if drawn:
            found.append(Curve(arm, looks[arm], mean(drawn), tuple(drawn)))
    return found


def validation_curves(found: Sequence[Course], looks: Mapping[str, Look], scale: Mapping[str, float] | None = None) -> list[Curve]:
    """Validation loss against tokens, or against tokens × scale of the arm (FLOPs a token)."""
    lines: dict[str, list[tuple[Point, ...]]] = {}
    for course in found:
        lines.setdefault(course.arm, []).append(tuple((float(tokens), nats) for tokens, (nats, _) in sorted(course.validation.items())))
    return _curves(lines, looks, scale)


def training_curves(found: Sequence[Course], looks: Mapping[str, Look]) -> list[Curve]:
    """Training loss against tokens, the mean over the seeds, thinned."""
    lines: dict[str, list[tuple[Point, ...]]] = {}
    for course in found:
        lines.setdefault(course.arm, []).append(course.training)
    return [Curve(arm, looks[arm], thinned(list(mean(each)))) for arm, each in lines.items() if any(each)]


def gain_courses(found: Sequence[Course], reference: str) -> dict[str, list[tuple[Point, ...]]]:
    """For every arm and seed the gain over the reference's run of the same seed, at the points both measured on the same targets.

    Arms with another token budget are left out: at the same tokens they are elsewhere in their learning-rate schedule.
    """
    budget = next((course.budget for course in found if course.arm == reference), None)
    base = {course.seed: course.validation for course in found if course.arm == reference}
    gains: dict[str, list[tuple[Point, ...]]] = {}
    for course in found:
        other = base.get(course.seed, {})
        if course.arm == reference or course.budget != budget:
            continue
        shared = [(at, nats) for at, (nats, target) in sorted(course.validation.items()) if at in other and other[at][1] == target]
        line = tuple((float(at), other[at][0] - nats) for at, nats in shared)
        if line:
            gains.setdefault(course.arm, []).append(line)
    return gains


def gain_curves(found: Sequence[Course], reference: str, looks: Mapping[str, Look]) -> list[Curve]:
    """Gain against tokens, where at least two points are measured."""
    return [curve for curve in _curves(gain_courses(found, reference), looks) if len(curve.mean) > 1]


def crossings(found: Sequence[Course], reference: str, results: Sequence[ArmResult]) -> dict[str, tuple[float, float]]:
    """For arms whose mean gain changes sign for good: {arm: (tokens where it passes zero, the gain at the end)}."""
    crossed = {}
    for arm, lines in gain_courses(found, reference).items():
        line = mean(lines)
        at = crossing([round(x) for x, _ in line], [y for _, y in line])
        if at is not None:
            crossed[arm] = (at, line[-1][1])
    return {result.name: crossed[result.name] for result in results if result.name in crossed}


def reference_noise(found: Sequence[Course], reference: str) -> float | None:
    """How far the seeds of the reference lie apart at the last point that all of them measured; None for a single seed."""
    lines = [dict(course.validation) for course in found if course.arm == reference and course.validation]
    shared = set.intersection(*(set(line) for line in lines)) if len(lines) > 1 else set()
    if not shared:
        return None
    ends = [line[max(shared)][0] for line in lines]
    return max(ends) - min(ends)
