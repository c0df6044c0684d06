"""Arms that differ in what the law does not know of: a learning rate, a kind of norm, another text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from ostinato.study.records import Arm

LAW_KNOWS = {
    "model": {"d_model", "layers", "heads", "kv_heads", "head_dim", "schedule", "passes", "inject", "h0", "pass_norm", "backprop",
              "streams"},
    "recipe": {"tokens", "micro_batch"},
    "data": set(),
}  # fmt: skip
"""What a grid varies: size, passes, what comes with looping, and tokens. What a treatment is made of makes one by itself."""
MOST_NAMED = 3


def unlike(arms: Iterable[tuple[str, Arm]]) -> list[str]:
    """A sentence for each setting in which some arms of a treatment are not as the others.  arms: with their treatment."""
    values: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for treatment, arm in arms:
        for key, value in _settings(arm).items():
            values[treatment, key][arm.name] = value
    said = []
    for (_, key), by_arm in values.items():
        usual = Counter(by_arm.values()).most_common(1)[0][0]
        others = [name for name, value in by_arm.items() if value != usual]
        if others:
            named = ", ".join(others[:MOST_NAMED]) + (f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else "")
            what = f"{by_arm[others[0]]}, not {usual}" if max(map(len, (usual, by_arm[others[0]]))) < 40 else "otherwise than the others"
            said.append(f"{named}: {key} is {what}, which the law does not know of")
    return said


def _settings(arm: Arm) -> dict[str, str]:
    dumped: dict[str, dict[str, Any]] = {part: getattr(arm, part).model_dump(mode="json") for part in LAW_KNOWS}
    return {f"{part}.{key}": str(value) for part, found in dumped.items() for key, value in found.items() if key not in LAW_KNOWS[part]}
