"""The evaluation points of a run: which losses are still missing from its folder, and how they get there."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ostinato.analysis.sums import summary
from ostinato.data import Prepared, Targets
from ostinato.data.targets import targets
from ostinato.errors import StoreError, TrainingError
from ostinato.measure import measure_losses
from ostinato.model.decoder import Decoder
from ostinato.store.runs import RunFolder
from ostinato.store.studies import evaluation_key
from ostinato.study.derive import recipe_steps
from ostinato.study.points import MEASURED, measurements
from ostinato.study.records import Arm, Evaluate

log = logging.getLogger("ostinato")


class Evaluations:
    """Measures the parts at their points. The held-out losses are stored and not shown."""

    def __init__(self, arm: Arm, evaluate: Evaluate, prepared: Prepared, folder: RunFolder):
        """Raises TrainingError for windows longer than learned positions, StoreError when the folder holds losses of other targets."""
        context = evaluate.context or arm.recipe.context
        self.arm, self.evaluate, self.bos = arm, evaluate, prepared.bos
        self.folder = folder.under(evaluation_key(evaluate, arm.recipe.context))
        if arm.model.positions == "learned" and context > arm.recipe.context:
            raise TrainingError(f"evaluate.context {context:,} for an arm with {arm.recipe.context:,} learned positions",
                                "a window is at most as long as the positions that were learned",
                                f"set evaluate.context to {arm.recipe.context} or less")  # fmt: skip
        steps = recipe_steps(arm.recipe)
        self.wanted = measurements(evaluate, steps.tokens, steps.tokens_per_step)
        self.targets: dict[str, Targets] = {part: targets(prepared, part, evaluate, context) for part in MEASURED}
        self.seconds: float | None = None  # of the last point
        self._refuse_other_targets()

    def missing(self) -> list[int]:
        """The points, in tokens and ascending, at which a part is not measured yet."""
        done = set(self.folder.measured())
        return [tokens for tokens, parts in self.wanted.items() if any((part, tokens) not in done for part in parts)]

    def measure(self, decoder: Decoder, tokens: int, told: Callable[[float], None]) -> float | None:
        """Measure what is missing at `tokens` and store it; nats per token of the validation part if it was measured now.

        told: called between batches with the share that is measured, so that a long measurement shows how far it is.
        """
        self.folder.write_evaluation(self.evaluate.model_dump(mode="json"))
        began, done, nats = time.monotonic(), set(self.folder.measured()), None
        parts = {part: self.targets[part] for part in self.wanted[tokens] if (part, tokens) not in done}
        before, every = 0, max(1, sum(map(len, parts.values())))
        for part, wanted in parts.items():
            mask = self.arm.data.document_mask
            losses = measure_losses(decoder, wanted, self.evaluate.batch, mask, self.bos,
                                    lambda scored, _, before=before: told((before + scored) / every))  # fmt: skip
            before += len(wanted)
            self.folder.write_losses(part, tokens, losses, wanted)
            if part == "validation":
                nats = summary(losses, wanted.bytes).nats_per_token
        self.seconds = time.monotonic() - began
        log.info("measured at %s tokens in %.1f s: validation %s nats per token", f"{tokens:,}", self.seconds,
                 "not estimable:" if nats is None else f"{nats:.4f}")  # fmt: skip
        return nats

    def kept_points(self) -> set[int]:
        """The points of this study, and those at which any study has measured this run."""
        others = (self.folder.under(name).measured() for name in self.folder.evaluations())
        return set(self.wanted) | {tokens for measured in others for _, tokens in measured}

    def _refuse_other_targets(self) -> None:
        for part, tokens in self.folder.measured():
            if part in self.wanted.get(tokens, ()):
                stored, wanted = self.folder.read_loss_summary(part, tokens)["target_id"], self.targets[part].id
                if stored != wanted:
                    raise StoreError(
                        f"run {self.folder.name} has {part} losses at {tokens:,} tokens on other targets ({stored[:8]}, not {wanted[:8]})",
                        "stored losses are never replaced by losses of other targets",
                        f"use the version of ostinato that measured them, or delete {self.folder.losses_path(part, tokens).parent}",
                    )
