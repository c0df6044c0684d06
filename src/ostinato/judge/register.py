"""Registering a study: what is sealed beside it, and what is to be done next. No torch, no text: it answers at once.

What exists already is found by what a run is (`study.fingerprint`), not by what it is called: a run that another study has trained, and
that this one would take over without training, is a result of before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ostinato.errors import StoreError, StudyError
from ostinato.files import sha256
from ostinato.store import RunFolder, Store
from ostinato.store.environment import file_state
from ostinato.store.registrations import Registration, Result, content, differences, of_size
from ostinato.study.fingerprint import run_fingerprint
from ostinato.study.load import is_shipped
from ostinato.study.records import Arm, Data, Study


def register(study: Study, store: Store) -> Registration:
    """Seal the study with its predictions; where it has not changed since the newest registration, that one, as found.

    Raises StudyError for a study without predictions, StoreError where a registration that is there is torn.
    """
    if not study.predictions:
        raise StudyError(f"study {study.name} makes no prediction", "what is registered is what somebody expects, before it is known",
                         "add to the file: predictions: [{claim: looping helps, supported: gain(ARM) >= 0.01, killed: gain(ARM) <= 0}]; "
                         "`ostinato keys predictions` tells the keys")  # fmt: skip
    state = {"commit": None, "why": "a shipped study"} if is_shipped(study) else file_state(Path(study.path) if study.path else None)
    return store.create().study_folder(study.name).register(study, list(results(study, store)), state)


def results(study: Study, store: Store) -> Iterator[Result]:
    """What is measured already of the study's runs, by arm and seed, whichever study has trained them and whenever.

    Where nothing is measured, the losses of training steps count: they have been seen too. A run whose record is torn counts where a
    version of this study names it.
    """
    named = {(key, run[:16]) for version in store.study_folder(study.name).versions() for key, run in version.runs.items()}
    folders = {folder.name: folder for folder in store.runs()}
    found = {(key, run) for key, run in named if run in folders} | {(key, name) for key, name in _same_runs(study, folders)}
    for (arm, seed), name in sorted(found):
        yield from _of_run(arm, seed, folders[name], store.root)


def _same_runs(study: Study, folders: dict[str, RunFolder]) -> Iterator[tuple[tuple[str, int], str]]:
    """((arm, seed), name) of every run in the store that is a run of this study as it is now."""
    texts: dict[tuple[Data, str], None] = {}
    for folder in folders.values():
        try:
            resolved = folder.resolved()
            texts[Arm.model_validate(resolved["arm"]).data, resolved["data_fingerprint"]] = None
        except (StoreError, ValueError, KeyError, TypeError):
            continue  # torn, or recorded by a version with other keys
    for arm in study.arms:
        for data, fingerprint in texts:
            if data == arm.data:
                names = ((seed, run_fingerprint(arm, seed, fingerprint)[:16]) for seed in arm.seeds)
                yield from (((arm.name, seed), name) for seed, name in names if name in folders)


def _of_run(arm: str, seed: int, folder: RunFolder, root: Path) -> Iterator[Result]:
    measured = False
    for evaluation in folder.evaluations():
        losses = folder.under(evaluation)
        points: dict[str, list[int]] = {}
        for part, tokens in losses.measured():
            points.setdefault(part, []).append(tokens)
        for part, tokens_of in points.items():
            file = losses.losses_path(part, tokens_of[-1])
            yield Result(arm, seed, folder.name, part, tuple(tokens_of), str(file.relative_to(root)), sha256(file))
            measured = True
    file = folder.finished_steps_path if folder.finished_steps_path.exists() else folder.steps_path
    if not measured and file.exists():
        tokens = [row for row in folder.steps()["tokens"].to_pylist() if row is not None]
        if tokens:
            yield Result(arm, seed, folder.name, "train", (int(tokens[-1]),), str(file.relative_to(root)), "")


def unregistered(study: Study, store: Store) -> str:
    """Why `ostinato register` is the next step of a study with predictions, in words; "" where it is not."""
    if not study.predictions:
        return ""
    try:
        made = of_size(store.study_folder(study.name).registrations(), study)
    except StoreError as error:
        return error.what
    if not made:
        return "its predictions are not registered"
    changed = any(differences(content(made[-1].study), content(study)))
    return f"the study has changed since registration {made[-1].number}" if changed else ""
