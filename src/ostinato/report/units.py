"""The two units of a gain as readers see them, and how a table or a figure keeps to one or says which.

Arms that score the same targets are compared in nats a token, arms with different tokenizers in bits a byte. A figure of a study with
several tokenizers is in bits a byte throughout; a table says the unit in every cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ostinato.analysis import BITS, NATS, ArmResult
from ostinato.study.records import Study

WORDS = {NATS: "nats a token", BITS: "bits a byte"}
SHORT = {NATS: "nats", BITS: "bits/B"}


def unit_of(study: Study) -> str:
    """The unit of a study's figures: bits a byte as soon as its arms have different tokenizers."""
    return BITS if len({arm.data.tokenizer for arm in study.arms}) > 1 else NATS


def mixed(results: Sequence[ArmResult]) -> bool:
    """Whether gains of both kinds stand in one column, or all are in bits a byte: then every cell says its unit."""
    return any(result.unit == BITS for result in results)


def factor(result: ArmResult, unit: str) -> float | None:
    """What turns a gain of this arm into `unit`: its targets are those of the arm it is compared with, so one number does.

    None where its targets have no bytes.
    """
    if unit == result.unit:
        return 1.0
    sums = result.sums
    return sums.targets / (math.log(2) * sums.bytes) if unit == BITS and sums.bytes else None


def only_base(results: Sequence[ArmResult]) -> str | None:
    """The one arm that all others are compared with; None when arms have references of their own."""
    bases = {result.against for result in results if result.against}
    reference = next(result.name for result in results if result.reference)
    return reference if bases <= {reference} else None
