"""Token classes in the tables of what is measured: which there are, and how a column of one is explained."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ostinato.analysis.measured import ALL, ClassSums


class Split(Protocol):
    """What is summed by class."""

    sums: ClassSums


def classes_of(found: Iterable[Split]) -> list[str]:
    """Every class that one of them has, in order of first mention."""
    return list(dict.fromkeys(class_ for one in found for class_ in one.sums.classes))


def words(class_: str) -> str:
    """A class in a sentence."""
    return "all targets" if class_ == ALL else f"targets of class {class_}"


def of_class(what: str, class_: str) -> str:
    """What a column of this class holds."""
    return what if class_ == ALL else f"{what}, {words(class_)}"
