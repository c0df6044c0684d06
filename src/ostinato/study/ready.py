"""Corpora by name: those that this machine makes itself, and ready names for data sets on the Hugging Face hub.

A ready name stands for an id with its configuration, split and field, and says how its rows become documents; whatever else of `data` a
study gives is laid over it. Any other data set is named by its id, owner/name, a revision after an @ if it should stay the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

CORPORA = {
    "python-docs": "documentation topics and docstrings of the standard library, about 2 MB",
    "python-docs-plus": "python-docs and the docstrings of the installed torch, numpy and scipy, about 12 MB",
}
"""Gathered from the Python that runs this, with what they are."""

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w.-]+)?")


@dataclass(frozen=True)
class Ready:
    """A data set on the hub. keys: what of `data` the name sets, unless the study does; large: how much there is, if it is a great deal."""

    id: str
    about: str
    keys: dict[str, Any]
    large: str = ""


READY = {
    "babylm-2026-strict": Ready(
        "BabyLM-community/BabyLM-2026-Strict",
        "BabyLM 2026, strict track: at most 100M words; its rows are lines, here joined into documents of 4 KiB",
        {"field": "text", "join": 4096},
    ),
    "fineweb-edu": Ready(
        "HuggingFaceFW/fineweb-edu",
        "educational web pages, the sample of 10 billion GPT-2 tokens",
        {"config": "sample-10BT", "field": "text"},
        "10 billion tokens",
    ),
    "climbmix": Ready(
        "karpathy/climbmix-400b-shuffle",
        "web pages in a mixture found by search, shuffled; 400 billion tokens, so bound it, as most: 2G",
        {"field": "text"},
        "400 billion tokens",
    ),
}


def with_ready(given: dict[str, Any]) -> dict[str, Any]:
    """The given keys of `data` over those that its ready name sets."""
    ready = READY.get(str(given.get("corpus")))
    return {**ready.keys, **given} if ready else given


def hub_id(corpus: str) -> str | None:
    """The id on the hub that a corpus may stand for: a ready name's, or itself if it reads like one."""
    if corpus in READY:
        return READY[corpus].id
    return corpus if HUB_ID.fullmatch(corpus) and not corpus.startswith(".") else None
