"""Somebody else's model in a Hugging Face folder: opened, measured as a run is, and kept in the store beside the runs.

With a study it is scored on the study's own validation documents, as its tokenizer cuts them, so that it is compared with the arms in bits
per byte, document by document. Without one there are no targets, and what needs none is measured.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ostinato.analysis.models import PART, TOKENS
from ostinato.data import Targets
from ostinato.data.other_tokens import with_vocabulary
from ostinato.data.prepare import prepare
from ostinato.data.targets import targets
from ostinato.data.vocabulary import Vocabulary, load
from ostinato.errors import StudyError
from ostinato.files import sha256
from ostinato.measure.all import check_pairs, lacking, stored, why_not
from ostinato.measure.context import Context
from ostinato.measure.foreign import Foreign
from ostinato.measure.load import device_of
from ostinato.measure.losses import measure_losses
from ostinato.measure.taking import Told, Took, sorted_out, take_all
from ostinato.store import RunFolder, Store, environment, evaluation_key
from ostinato.store.losses import rates
from ostinato.study.bos import has_bos
from ostinato.study.records import MEASURE_NAMES, Evaluate, Measure, Study
from ostinato.study.tokenizer_files import read_tokenizer

log = logging.getLogger("ostinato")

_FILES = (".safetensors", ".bin", ".json", ".py", ".model", ".txt")


@dataclass(frozen=True)
class Model:
    """An opened folder.  digest: sha256 of its files, whatever it is called.  parameters: every number once."""

    subject: Foreign
    vocabulary: Vocabulary
    digest: str
    path: Path
    kind: str
    parameters: int


@dataclass(frozen=True)
class ModelMeasured:
    """folder: of the store.  took: each measure.  bits_per_byte, documents: of the study's validation part, None without a study."""

    name: str
    folder: RunFolder
    took: list[Took]
    bits_per_byte: float | None = None
    documents: int | None = None


def open_model(path: Path, device: torch.device | str = "cpu", trust: bool = False) -> Model:
    """The model in a folder, in float32, and its tokenizer.  trust: run the code that the folder brings.

    Raises StudyError for a folder that transformers cannot load, that brings code and is not trusted, or without transformers;
    DataError for its tokenizer; OstinatoError for a model that is not causal.
    """
    try:
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging as said
    except ImportError:
        raise StudyError("transformers is not installed", "another's model is read with it", "pip install 'ostinato[hf]'") from None
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        what = f"{path / 'config.json'} cannot be read ({error})"
        raise StudyError(what, "a Hugging Face folder has one", "name the folder of a model") from None
    if config.get("auto_map") and not trust:
        raise StudyError(f"{path} brings code of its own ({', '.join(sorted(file.name for file in path.glob('*.py')))})",
                         "code of others runs only when that is said", "read it, and add --trust-remote-code")  # fmt: skip
    vocabulary = load(path)
    said.disable_progress_bar()  # of reading the weights; there is one of ours
    try:
        model, found = AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, trust_remote_code=trust, local_files_only=True, output_loading_info=True)  # fmt: skip
    except Exception as error:  # the libraries raise what they like
        raise StudyError(f"{path} cannot be loaded by transformers: {str(error).splitlines()[0]}", "a causal language model in a folder",
                         "name the folder that save_pretrained wrote") from None  # fmt: skip
    if missing := sorted(found["missing_keys"]):
        what = f"{path} lacks {len(missing)} tensors of its model: {', '.join(missing[:5])}"
        raise StudyError(what, "every weight is read from the folder", "fetch it again, or name the folder that save_pretrained wrote")
    source, declared = read_tokenizer(path)
    subject = Foreign(model.to(device), path.resolve().name, vocabulary.bos if has_bos(source, declared) else None)
    known = max((int(token) for token in (vocabulary.size - 1, subject.bos or 0)), default=0)
    if subject.bos is not None and known >= subject.vocab:
        raise StudyError(f"the tokenizer of {path} has ids up to {known:,}, its model {subject.vocab:,} tokens",
                         "a model is read with the tokenizer that it was trained with", "put the right tokenizer.json there")  # fmt: skip
    counted = sum(parameter.numel() for parameter in model.parameters())
    return Model(subject, vocabulary, folder_digest(path), path, str(config.get("model_type")), counted)


def folder_digest(path: Path) -> str:
    """sha256 of the model's files by name; what a person writes beside them (README) is no part of it."""
    files = {file.name: sha256(file) for file in sorted(path.iterdir()) if file.suffix in _FILES and file.is_file()}
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()


def measure_model(path: Path, store: Store, measure: Measure, study: Study | None = None, only: Sequence[str] | None = None,
                  device: str = "auto", trust: bool = False, told: Told | None = None) -> ModelMeasured:  # fmt: skip
    """Measure the model in a folder and keep it in the store: what it lacks of `measure.take`, or anew what `only` names.

    study: whose validation documents it reads.  Raises as `open_model`, and as `score` for the study's text; DataError for minimal pairs.
    """
    model = open_model(path, device_of(device), trust)
    check_pairs(measure, [lacking(store.model(model.digest), measure, None, TOKENS, None, only)])
    subject, folder = model.subject, store.create().model(model.digest)
    given = {"arm": subject.name, "seed": None, "study": study.name if study else None, "path": str(path.resolve())}
    folder.write_record(given, {"model": {"kind": model.kind, "params_total": model.parameters, "vocab": subject.vocab,
                                          "applications": len(subject.labels)}, "digest": model.digest}, environment())  # fmt: skip
    context, evaluation, sums = Context(measure, vocabulary=model.vocabulary), None, {}
    if study is not None:
        wanted, evaluation = study_targets(model, study)
        folder = store.model(model.digest, evaluation)
        sums = score(model, wanted, folder, study.evaluate, told)
        context = Context(measure, wanted, batch=study.evaluate.batch, vocabulary=model.vocabulary)
    names = [name for name in MEASURE_NAMES if name in (only or measure.take)]
    took, due = sorted_out(names, lambda name: why_not(name, measure, None, study is not None),
                           lambda name: not only and stored(folder, name, measure, TOKENS, evaluation))  # fmt: skip
    took |= {one.measure: one for one in take_all(subject, due, context, folder, TOKENS, evaluation, told)}
    return ModelMeasured(subject.name, folder, [took[name] for name in names], **sums)


def study_targets(model: Model, study: Study) -> tuple[Targets, str]:
    """The study's validation documents as the model's tokens, in the windows of the reference arm, and the key of these windows.

    Raises StudyError for a model without BOS, and for windows of packed rows or longer than the model; DataError for the text.
    """
    arm = next(arm for arm in study.arms if arm.name == study.reference)
    context, subject = study.evaluate.context or arm.recipe.context, model.subject
    if study.evaluate.windows == "rows":
        raise StudyError(f"{study.name} measures packed rows", "a model of another tokenizer is compared by whole documents",
                         "set evaluate: {windows: documents}")  # fmt: skip
    if subject.bos is None:
        raise StudyError(f"the tokenizer of {model.path} has no token that begins a text", "every window begins with one (BOS)",
                         "name it as bos_token in tokenizer_config.json, if the model has one; --only pairs needs none")  # fmt: skip
    if subject.context is not None and context > subject.context:
        raise StudyError(f"windows of {context:,} tokens for {subject.name}", f"it has {subject.context:,} positions",
                         f"set evaluate: {{context: {subject.context}}} in the study, or less")  # fmt: skip
    other = with_vocabulary(prepare(arm.data), PART, model.vocabulary)
    return targets(other, PART, study.evaluate, context), evaluation_key(study.evaluate, arm.recipe.context)


def score(model: Model, wanted: Targets, folder: RunFolder, evaluate: Evaluate, told: Told | None = None) -> dict[str, Any]:
    """Measure the loss of every target unless it is stored; bits_per_byte and documents."""
    part = wanted.part
    if (part, TOKENS) not in folder.measured() or folder.read_loss_summary(part, TOKENS)["target_id"] != wanted.id:
        progress = told and (lambda done, count: told("losses", done / count))
        losses = measure_losses(model.subject, wanted, evaluate.batch, False, wanted.bos, progress)
        folder.write_evaluation(evaluate.model_dump(mode="json"))
        folder.write_losses(part, TOKENS, losses, wanted)
    footer = folder.read_loss_summary(part, TOKENS)
    per_byte = rates(footer["sum_nats"], footer["targets"], footer["bytes"])["bits_per_byte"]
    return {"bits_per_byte": per_byte, "documents": len(set(wanted.document.tolist()))}
