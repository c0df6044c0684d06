"""A run's trained model, ready for use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ostinato.store import RunFolder

if TYPE_CHECKING:
    from ostinato.data import Prepared
    from ostinato.model import Decoder


def load_run(folder: RunFolder, tokens: int | None = None, cache: Path | None = None) -> tuple[Decoder, Prepared]:
    """The decoder after `tokens` of training (default: the newest checkpoint) and the text of the run.

    Raises StoreError when there is no checkpoint, or when the text is no longer the run's.
    """
    from ostinato.measure.load import load_decoder, load_text

    prepared = load_text(folder, cache)
    return load_decoder(folder, prepared, tokens), prepared
