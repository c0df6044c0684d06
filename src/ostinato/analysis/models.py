"""Models that were not trained here beside a study: scored on its validation documents, compared by document in bits per byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ostinato.analysis.documents import Groupings, documents_over_seeds
from ostinato.analysis.paired import Paired
from ostinato.analysis.results import ArmResult
from ostinato.errors import StoreError
from ostinato.store import RunFolder, Store, evaluation_key
from ostinato.store.losses import rates
from ostinato.study.records import Study

PART, TOKENS = "validation", 0
"""Of the study, that they are scored on; of training, here."""


@dataclass(frozen=True)
class ModelResult:
    """One model.  digest: of its files.  documents: of the study's validation part, all of which it was scored on.

    bits_per_byte: None ("not estimable") where nothing was scored.  pairing: against the reference at its newest point, in bits per byte,
    positive where the model is better; None with the `problem` where they cannot be compared.
    """

    name: str
    digest: str
    params_total: int | None
    documents: int
    bits_per_byte: float | None
    pairing: Paired | None = None
    problem: str | None = None

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {**vars(self), "pairing": self.pairing and self.pairing.record()}


def models_of(study: Study, store: Store) -> list[RunFolder]:
    """The models that were scored in the windows of this study, whatever its text, by digest."""
    arm = next(arm for arm in study.arms if arm.name == study.reference)
    key = evaluation_key(study.evaluate, arm.recipe.context)
    return [folder for one in store.models() if (PART, TOKENS) in (folder := one.under(key)).measured()]


def models_beside(study: Study, store: Store, results: Sequence[ArmResult]) -> list[ModelResult]:
    """Every model that was scored on documents of this study, the best first; [] without one, and before the reference is measured.

    results: of the study.  Raises StoreError when a stored file is torn.
    """
    reference = next(result for result in results if result.reference)
    runs, groupings, found = store.runs_of(study), Groupings(store), []
    for folder in models_of(study, store) if reference.seeds_used else ():
        losses, summary = folder.read_losses(PART, TOKENS), folder.read_loss_summary(PART, TOKENS)
        pairs = {seed: (runs[reference.name, seed].read_losses(PART, reference.tokens), losses) for seed in reference.seeds_used}
        pairing, problem = None, None
        try:
            base, mine = groupings.of(next(iter(pairs.values()))[0].target_id), groupings.of(losses.target_id)
            if not set(base.key.tolist()) & set(mine.key.tolist()):
                continue  # scored with another text
            pairing = documents_over_seeds(pairs, (base, mine))[0]
        except StoreError as error:
            problem = error.what
        rate = rates(summary["sum_nats"], summary["targets"], summary["bytes"])["bits_per_byte"]
        name, model = str(folder.given().get("arm")), folder.resolved().get("model") or {}
        found.append(ModelResult(name, folder.name, model.get("params_total"), len(mine.key), rate, pairing, problem))
    return sorted(found, key=lambda one: (one.bits_per_byte is None, one.bits_per_byte))
