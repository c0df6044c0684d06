"""How much text an arm trains on and is measured on, if that is known already: a plan reads what the cache holds, and prepares, packs and
hashes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from ostinato.data.corpus import remembered
from ostinato.errors import OstinatoError
from ostinato.files import default_cache
from ostinato.study.derive import recipe_steps
from ostinato.study.records import Arm


@dataclass(frozen=True)
class Extent:
    """tokens: where the first pass over the rows of the training part ends; words: of its text.  parts: tokens of every part."""

    tokens: int
    words: int | None
    parts: dict[str, int]


def extent(arm: Arm) -> Extent | None:
    """The extent of the arm's training part; None where its text is not prepared here, or cannot be used as it is."""
    try:
        if not remembered(arm.data, default_cache()):
            return None
        from ostinato.data.batches import BatchPlan  # and numpy, which a plan of other texts needs not wait for
        from ostinato.data.packing import is_packed, rows
        from ostinato.data.prepare import find_prepared

        prepared = find_prepared(arm.data)
        if prepared is None or not is_packed(prepared, "train", arm.recipe.context):
            return None
        batches = BatchPlan(rows(prepared, "train", arm.recipe.context), recipe_steps(arm.recipe).rows, arm.seeds[0])
        return Extent(batches.first_epoch_end_tokens, prepared.words, prepared.sizes)
    except (OstinatoError, OSError):
        return None
