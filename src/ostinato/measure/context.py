"""What a measure is given beside the model, and what it gives back. No torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ostinato.errors import OstinatoError
from ostinato.study.records import Arm, Measure

if TYPE_CHECKING:
    import pyarrow as pa

    from ostinato.data import Targets
    from ostinato.data.vocabulary import Vocabulary

class Unfit(OstinatoError):
    """This model has nothing of what a measure looks at, or hides it: the measure is left out, and nothing has failed."""


Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Context:
    """The text, and how much of it.

    measure: the study's wishes: `targets`, about how many are measured (the first whole windows that have so many), and `pairs`.
    targets: of the validation part, all that the study evaluates; None where no text is known (another's model without a study).
    document_mask: attention and recurrent states stop at BOS.  batch: tokens a forward pass; changes memory, not results.
    vocabulary: from text to ids.  arm: the configuration of a run of ours; None for another's model.
    progress: told (done, all) now and then, or None.
    """

    measure: Measure
    targets: Targets | None = None
    document_mask: bool = False
    batch: int = 16_384
    vocabulary: Vocabulary | None = None
    arm: Arm | None = None
    progress: Progress | None = None


@dataclass(frozen=True)
class Taken:
    """table: what is stored, one row at least.  about: what a reader needs to know of it, as JSON types.

    settings: what else would make it another measurement, beside what measure/all.py knows of it.
    """

    table: pa.Table
    about: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
