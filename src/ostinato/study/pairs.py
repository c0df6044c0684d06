"""Which arm an arm is compared with: the one that it names (`against`), else the study's reference."""

from __future__ import annotations

from ostinato.study.records import Arm, Study


def base_of(arm: Arm, reference: str) -> str | None:
    """The name of the arm that `arm` is compared with; None for the reference itself, which is compared with none."""
    return None if arm.name == reference else arm.against or reference


def bases(study: Study) -> dict[str, str]:
    """{arm: the arm that it is compared with}, in the order of the study and without the reference."""
    found = ((arm.name, base_of(arm, study.reference)) for arm in study.arms)
    return {name: base for name, base in found if base is not None}
