"""What a measure in a prediction names, held against the study: is there such an arm, seed, point, application, number of passes?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ostinato.claims import Measure
from ostinato.claims.reading import Mention
from ostinato.errors import OstinatoError
from ostinato.study.derive import arm_applications, recipe_steps
from ostinato.study.pairs import base_of
from ostinato.study.passes import trained_passes
from ostinato.study.points import measurements
from ostinato.study.records import Arm, Study

Wrong = tuple[int, str, str, str]
"""Column in the text, what, rule, fix."""
COMPARED = ("gain", "won", "crossing")
"""Measures of an arm beside another one."""


def compared_with(one: Measure, study: Study) -> str | None:
    """The arm that a measure compares its own with; None where it compares none, and of the reference alone."""
    if one.name not in COMPARED:
        return None
    arm = next((arm for arm in study.arms if arm.name == one.arm), None)
    return one.option("over") or (arm and base_of(arm, study.reference))


def of_measure(mention: Mention, study: Study, no_arm: Callable[[str], tuple[str, str, str]]) -> Iterator[Wrong]:
    """What is wrong with one.  no_arm: what to say of an arm that is not there."""
    one, at, arms = mention.node, mention.at, {arm.name: arm for arm in study.arms}
    missing = [key for key, name in (("arm", one.arm), ("over", one.option("over"))) if name is not None and name not in arms]
    for key in missing:
        yield (at[key], *no_arm(one.arm if key == "arm" else one.option("over")))
    if missing:
        return
    arm, base = arms[one.arm], compared_with(one, study)
    if one.name in COMPARED and base is None:
        yield (at["arm"], f"{arm.name} is compared with no other arm", "the reference is what others are compared with",
               f"write {one.name}({arm.name}, over=ARM)")  # fmt: skip
    yield from _of_runs(mention, [arm] + ([arms[base]] if base in arms else []), study)
    try:
        yield from _of_model(mention, arm)
    except OstinatoError:
        return  # the schedule itself is wrong, and is told of


def _of_runs(mention: Mention, arms: list[Arm], study: Study) -> Iterator[Wrong]:
    one, at = mention.node, mention.at
    for arm in arms:
        if (seed := one.option("seed")) is not None and int(seed) not in arm.seeds:
            yield at["seed"], f"{arm.name} has no seed {seed}", f"its seeds are {', '.join(map(str, arm.seeds))}", f"seed={arm.seeds[0]}"
        if (tokens := one.option("tokens")) is None:
            continue
        try:
            steps = recipe_steps(arm.recipe)
            step = steps.tokens_per_step
            found = measurements(study.evaluate, steps.tokens, step)
        except OstinatoError:
            continue  # the budget or `evaluate` is wrong, and is told of
        wanted, part = max(1, (2 * int(tokens) + step) // (2 * step)) * step, one.option("part", "validation")
        known = [point for point, parts in found.items() if part in parts]
        if wanted not in known:
            near = min(known, key=lambda point: abs(point - int(tokens)))
            said = f"{arm.name} is not measured at {int(tokens):,} tokens" + (f" on {part}" if part != "validation" else "")
            yield at["tokens"], said, "points are those of evaluate, moved to whole steps, and the end", f"tokens={near}"


def _of_model(mention: Mention, arm: Arm) -> Iterator[Wrong]:
    one, at = mention.node, mention.at
    if one.name == "lens":
        last = len(arm_applications(arm.model)) - 1
        if int(one.option("application")) > last:
            yield (at["application"], f"{arm.name} has no application {one.option('application')}",
                   f"its schedule has {last + 1}, counted from 0", f"application={last}")  # fmt: skip
    if one.name == "depth":
        trained = trained_passes(arm.model)
        if trained is None:
            yield (at["arm"], f"{arm.name} runs one number of passes only", "depth is of an arm whose schedule can be run more often",
                   "schedule: (1..4)x{r}, and passes: 2")  # fmt: skip
        elif int(one.option("passes")) > 2 * trained:
            yield (at["passes"], f"{one.option('passes')} passes of {arm.name}",
                   f"it is measured with 1 to {2 * trained}, twice those trained", f"passes={2 * trained}")  # fmt: skip
