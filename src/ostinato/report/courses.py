"""The course of every run over training, from the store: validation losses at evaluation points, training losses, gains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ostinato.analysis import BITS, NATS, ArmResult, mean_line
from ostinato.report.figures import Curve, Point, thinned
from ostinato.report.looks import Look
from ostinato.report.units import factor
from ostinato.store import RunFolder
from ostinato.store.losses import rates
from ostinato.study.records import Study


@dataclass(frozen=True)
class Course:
    """One run. validation: {tokens: {unit: loss}} at its evaluation points; training: (tokens, nats a token) of every step."""

    arm: str
    seed: int
    validation: Mapping[int, Mapping[str, float]]
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
                    losses = rates(footer["sum_nats"], footer["targets"], footer["bytes"])
                    both = {NATS: losses["nats"], BITS: losses["bits_per_byte"]}
                    points[tokens] = {unit: loss for unit, loss in both.items() if loss is not None}
            steps = folder.steps()
            logged = zip(steps["tokens"].to_pylist(), steps["loss"].to_pylist(), strict=True)
            training = tuple((float(tokens), loss) for tokens, loss in logged if loss is not None and math.isfinite(loss))
            found.append(Course(arm.name, seed, points, training))
    return found


Lines = Mapping[str, list[tuple[Point, ...]]]


def _curves(lines: Lines, looks: Mapping[str, Look], scale: Mapping[str, float] | None = None) -> list[Curve]:
    found = []
    for arm, each in lines.items():
        times = scale[arm] if scale else 1.0
        drawn = [tuple((x * times, y) for x, y in line) for line in each if line]
        if drawn:
            found.append(Curve(arm, looks[arm], mean_line(drawn), tuple(drawn)))
    return found


def validation_curves(
    found: Sequence[Course], looks: Mapping[str, Look], unit: str, scale: Mapping[str, float] | None = None
) -> list[Curve]:
    """Validation loss in `unit` against tokens, or against tokens × scale of the arm (FLOPs a token)."""
    lines: dict[str, list[tuple[Point, ...]]] = {}
    for course in found:
        line = tuple((float(tokens), losses[unit]) for tokens, losses in sorted(course.validation.items()) if unit in losses)
        lines.setdefault(course.arm, []).append(line)
    return _curves(lines, looks, scale)


def training_curves(found: Sequence[Course], looks: Mapping[str, Look]) -> list[Curve]:
    """Training loss against tokens, the mean over the seeds, thinned."""
    lines: dict[str, list[tuple[Point, ...]]] = {}
    for course in found:
        lines.setdefault(course.arm, []).append(course.training)
    return [Curve(arm, looks[arm], thinned(list(mean_line(each)))) for arm, each in lines.items() if any(each)]


def gain_curves(results: Sequence[ArmResult], looks: Mapping[str, Look], unit: str) -> list[Curve]:
    """Gain of every arm over the one that it is compared with, in `unit`, where at least two points are measured."""
    lines: dict[str, list[tuple[Point, ...]]] = {}
    for result in results:
        times = factor(result, unit)
        if times is not None and result.course:
            lines[result.name] = [tuple((float(tokens), gain * times) for tokens, gain in line) for line in result.course.values()]
    return [curve for curve in _curves(lines, looks) if len(curve.mean) > 1]


def reference_noise(found: Sequence[Course], reference: str, unit: str) -> float | None:
    """How far the seeds of the reference lie apart at the last point that all of them measured; None for a single seed."""
    courses = [course.validation for course in found if course.arm == reference and course.validation]
    lines = [{tokens: losses[unit] for tokens, losses in one.items() if unit in losses} for one in courses]
    shared = set.intersection(*(set(line) for line in lines)) if len(lines) > 1 else set()
    if not shared:
        return None
    ends = [line[max(shared)] for line in lines]
    return max(ends) - min(ends)
