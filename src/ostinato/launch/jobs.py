"""Which runs a study has, which of them are due, and how much work is left in each. No torch.

A run is due until it is trained to the end, every evaluation point of the study is measured on both parts, and the study's measures are
taken; so a study that asks for more of an old run finds that run due again, and nothing is trained anew. What other studies have finished
is found by fingerprint and not done twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ostinato.data import BatchPlan, Prepared, rows
from ostinato.data.classes import classes
from ostinato.data.corpus import Progress
from ostinato.data.floors import floors
from ostinato.data.prepare import prepare
from ostinato.data.targets import targets
from ostinato.errors import OstinatoError, StudyError
from ostinato.ledger import Ledger, account
from ostinato.ledger.seconds import Calibration, RunSeconds, inputs_of, run_seconds
from ostinato.measure.all import inputs_of_measures, lacking
from ostinato.store import RunFolder, Store, evaluation_key
from ostinato.study import measurements, recipe_steps, run_fingerprint
from ostinato.study.asked import asked_arms
from ostinato.study.points import MEASURED
from ostinato.study.records import Arm, Data, Evaluate, Measure, Study


@dataclass(frozen=True)
class Job:
    """One run of a study. points: the parts that are measured at each point in tokens. part_flops: what measuring a part costs, about.

    measure: what else is, when it is trained.  take_flops: what that costs, about.
    seconds: that the run takes by the calibration of this machine; work is then counted in seconds, else in FLOPs.
    """

    arm: Arm
    seed: int
    fingerprint: str
    folder: RunFolder
    prepared: Prepared
    ledger: Ledger
    points: Mapping[int, tuple[str, ...]]
    part_flops: Mapping[str, float]
    measure: Measure
    take_flops: float
    seconds: RunSeconds | None = None

    @property
    def name(self) -> str:
        return f"{self.arm.name}, seed {self.seed}"

    @property
    def work(self) -> float:
        """Of the whole run, measurements included: seconds or FLOPs."""
        return self.seconds.total + self.taking_work if self.seconds else self.ledger.flops_total + self.measuring_work

    @property
    def measuring_work(self) -> float:
        """Of all measurements."""
        return sum(map(self._work_at, self.points)) + self.taking_work

    @property
    def taking_work(self) -> float:
        """Of the measures at the end."""
        return self._paced(self.take_flops)

    @property
    def token_work(self) -> float:
        """Of training on one token."""
        return self.seconds.training / self.ledger.tokens if self.seconds else self.ledger.flops_per_token

    def _flops_at(self, point: int) -> float:
        return sum(self.part_flops[part] for part in self.points.get(point, ()))

    def _work_at(self, point: int) -> float:
        return self._paced(self._flops_at(point))

    def _paced(self, flops: float) -> float:
        """Forward passes of so many FLOPs, in seconds at the pace of the measurements at points, or as they are."""
        if self.seconds is None:
            return flops
        return (self.seconds.measuring or 0.0) * flops / max(1.0, sum(map(self._flops_at, self.points)))

    def work_done(self, tokens: int, measuring: float | None = None, taking: float | None = None) -> float:
        """Of the run up to `tokens`, with the measurements before that and the share `measuring` of the one there, and its start.

        taking: the share of the measures at the end that is taken, when nothing else is left.
        """
        if taking is not None:
            return self.work - (1 - taking) * self.taking_work
        measured = sum(self._work_at(point) for point in self.points if point < tokens) + (measuring or 0.0) * self._work_at(tokens)
        return self.token_work * tokens + measured + (self.seconds.start if self.seconds and tokens else 0.0)

    def timed(self, calibration: Calibration, evaluate: Evaluate, threads: int) -> Job:
        """The same run with the seconds that it takes; as it is where its number format is not calibrated."""
        took = run_seconds(calibration, self.arm, self.prepared.vocab, evaluate, self.prepared.sizes, threads)
        return replace(self, seconds=took)

    def state(self) -> str:
        """done, unmeasured (trained, but not all is measured), or the state of its folder: new, running, stopped, failed."""
        state = self.folder.status()["state"]
        if state != "done":
            return state
        measured = set(self.folder.measured())
        all_points = all((part, point) in measured for point, parts in self.points.items() for part in parts)
        return "unmeasured" if not all_points or self.lacks() else "done"

    def lacks(self) -> tuple[str, ...]:
        """The measures that are not taken of the trained run."""
        return lacking(self.folder, self.measure, self.arm.model, self.ledger.tokens, self.folder.evaluation)

    def ids(self) -> dict[str, Any]:
        """arm, seed and run, for lists of outcomes."""
        return {"arm": self.arm.name, "seed": self.seed, "run": self.folder.name}


def prepare_texts(study: Study, progress: Progress | None = None) -> dict[Data, Prepared]:
    """The text of every arm, prepared once each. Raises DataError."""
    return {data: prepare(data, progress=progress) for data in dict.fromkeys(arm.data for arm in study.arms)}


def all_jobs(study: Study, store: Store, texts: Mapping[Data, Prepared]) -> list[Job]:
    """Every run of the study, contingent arms too. Raises DataError, with the arm, for a text smaller than one step."""
    found = []
    for arm in study.arms:
        prepared, steps = texts[arm.data], recipe_steps(arm.recipe)
        try:
            plan = BatchPlan(rows(prepared, "train", arm.recipe.context), steps.rows, 0)
        except OstinatoError as error:
            raise type(error)(f"arm {arm.name}: {error.what}", error.rule, error.fix) from None
        ledger = account(arm, prepared.vocab, plan.first_epoch_end_tokens, prepared.words)
        measured_at = measurements(study.evaluate, steps.tokens, steps.tokens_per_step)
        inputs = {part: inputs_of(prepared.sizes[part], study.evaluate, arm.recipe.context)[0] for part in MEASURED}
        part_flops = {part: ledger.flops_forward_per_token * count for part, count in inputs.items()}
        take_flops = ledger.flops_forward_per_token * inputs_of_measures(study.measure, arm.model)
        for seed in arm.seeds:
            fingerprint = run_fingerprint(arm, seed, prepared.fingerprint)
            folder = store.run(fingerprint, evaluation_key(study.evaluate, arm.recipe.context))
            found.append(Job(arm, seed, fingerprint, folder, prepared, ledger, measured_at, part_flops, study.measure, take_flops))
    return found


def select(jobs: Sequence[Job], arms: Collection[str] | None = None, seeds: Collection[int] | None = None) -> list[Job]:
    """The runs of these arms and seeds; without arms, all but those of contingent arms. Raises StudyError for one that is not there."""
    wanted = {arm.name for arm in asked_arms((job.arm for job in jobs), arms)}
    chosen = [job for job in jobs if job.arm.name in wanted]
    known = sorted({job.seed for job in chosen})
    missing = sorted(set(seeds or ()) - set(known))
    if missing:
        listed = ", ".join(map(str, known))
        raise StudyError(
            f"seed {missing[0]} is not in the study", f"the seeds of these arms are {listed}", "add it to `seeds`, or choose one of these"
        )
    return [job for job in chosen if not seeds or job.seed in seeds]


def due(study: Study, store: Store, arms: Collection[str] | None = None, seeds: Collection[int] | None = None,
        progress: Progress | None = None) -> list[Job]:  # fmt: skip
    """The runs that are missing, unfinished, failed or not measured at every point, in order. Contingent arms only by name."""
    return unfinished(select(all_jobs(study, store, prepare_texts(study, progress)), arms, seeds), study.reference)


def unfinished(jobs: Sequence[Job], reference: str) -> list[Job]:
    """Those that are not done, each run once: the reference arm's, so that whatever ends next can be compared; then the most work first."""
    once = {job.fingerprint: job for job in reversed(jobs)}
    left = [job for job in once.values() if job.state() != "done"]
    return sorted(left, key=lambda job: (job.arm.name != reference, -job.work, job.arm.name, job.seed))


def write_floors(jobs: Sequence[Job], store: Store, evaluate: Evaluate, progress: Progress | None = None) -> None:
    """Store the targets of these runs, what simple models of the training stream lose on them, and their classes, whatever is missing."""
    settings = {(job.prepared.fingerprint, job.arm.recipe.context): job for job in jobs}
    for done, ((data, context), job) in enumerate(settings.items()):
        if progress:
            progress("counting the unigram and bigram floors", done, len(settings))
        for part in MEASURED:
            wanted = targets(job.prepared, part, evaluate, context)
            store.write_targets(wanted)
            if len(wanted) and store.floors(wanted.id, data) is None:
                store.write_floors(wanted.id, data, floors(job.prepared, wanted, context))
            if len(wanted) and not store.has_classes(wanted.id, data):
                told = partial(progress, f"finding the classes of the {part} targets") if progress else None
                store.write_classes(wanted.id, data, classes(job.prepared, wanted, context, told))


def resolved(job: Job, study: Study) -> dict[str, Any]:
    """What is recorded of a run: the arm with every default, and what follows from it and the text."""
    ledger = job.ledger.row()
    kept = ("vocab", "params_total", "params_nonembedding", "flops_per_token", "flops_total", "tokens", "steps", "tokens_per_step",
            "epochs", "first_pass_ends", "words", "effective_depth", "unique_layers")  # fmt: skip
    return {
        "arm": job.arm.model_dump(mode="json"), "seed": job.seed, "fingerprint": job.fingerprint,
        "data_fingerprint": job.prepared.fingerprint, "data": job.prepared.manifest.get("corpus"),
        "evaluate": study.evaluate.model_dump(mode="json"), "checkpoints": study.checkpoints.model_dump(mode="json"),
        "measure": study.measure.model_dump(mode="json"),
        "ledger": {name: ledger[name] for name in kept},
    }  # fmt: skip
