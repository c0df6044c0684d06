"""What the caches of huggingface_hub and datasets hold of a data set, for machines without a network.

huggingface_hub keeps the files of a repository as links under snapshots/<commit>, the commit of a branch in refs/<branch>; they are
read as a folder laid out as on the hub. datasets keeps what it has prepared as Arrow files.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ostinato.data.layout import Layout, layout
from ostinato.errors import DataError


def _home() -> Path:
    root = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(root).expanduser()


def find(name: str, config: str | None, split: str) -> Layout | None:
    """The files that huggingface_hub's cache has of a data set; None when it has not all that is asked for."""
    plain, _, revision = name.partition("@")
    folder = Path(os.environ.get("HF_HUB_CACHE") or _home() / "hub").expanduser() / f"datasets--{plain.replace('/', '--')}"
    commit = revision
    with contextlib.suppress(OSError):
        commit = (folder / "refs" / (revision or "main")).read_text(encoding="utf-8").strip()
    snapshot = folder / "snapshots" / commit
    if not commit or not snapshot.is_dir():
        return None
    try:
        found = layout(snapshot, config, split)
    except DataError:
        return None
    return Layout(found.files, found.kind, found.left_out, {**found.card, "revision": commit})


def prepared(name: str) -> bool:
    """Whether the cache of `datasets` has something of this name."""
    return _prepared(name).is_dir()


def _prepared(name: str) -> Path:
    owner, _, own = name.partition("@")[0].partition("/")
    snake = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", own)
    snake = re.sub(r"([a-z\d])([A-Z])", r"\1_\2", snake).lower()
    return Path(os.environ.get("HF_DATASETS_CACHE") or _home() / "datasets").expanduser() / f"{owner}___{snake}"


def arrow_files(package: Any, name: str, config: str | None, split: str) -> Layout | None:
    """The Arrow files that `datasets` has prepared; None when it has not these."""
    try:
        dataset = package.load_dataset(name.partition("@")[0], config, split=split)
        files = tuple(str(entry["filename"]) for entry in dataset.cache_files)
    except (OSError, ValueError, KeyError):
        return None
    card = {"config": dataset.info.config_name, "split": split, "revision": Path(files[0]).parent.name if files else ""}
    return Layout(files, "Arrow", card={key: str(value) for key, value in card.items()}) if files else None


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Within it the libraries do not try the network."""
    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(ImportError):
                import datasets.config
                import huggingface_hub.constants

                for module in (datasets.config, huggingface_hub.constants):
                    stack.callback(setattr, module, "HF_HUB_OFFLINE", module.HF_HUB_OFFLINE)
                    module.HF_HUB_OFFLINE = True
            yield
    finally:
        if before is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = before
