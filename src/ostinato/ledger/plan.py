"""A study's plan: the ledger of every arm, what is matched against the reference arm, what could confound the comparison, and how long it
all takes on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ostinato.data.extent import Extent, extent
from ostinato.ledger.account import account
from ostinato.ledger.choice import Choice, choose
from ostinato.ledger.compare import Comparison, compare
from ostinato.ledger.confounds import confounds
from ostinato.ledger.flops import CONVENTIONS
from ostinato.ledger.ledger import Ledger
from ostinato.ledger.seconds import Calibration, RunSeconds, run_seconds
from ostinato.study.asked import depends_on
from ostinato.study.derive import vocab
from ostinato.study.fingerprint import fingerprint, run_fingerprint
from ostinato.study.records import Data, Study


@dataclass(frozen=True)
class Plan:
    """All that is known of a study before it runs.

    seconds: of one run of each arm (None: not calibrated for it).  choice: jobs and threads that end the study first.
    calibration: where the seconds come from (None: this machine is not calibrated, and no seconds are known).
    """

    study: Study
    ledgers: tuple[Ledger, ...]
    comparisons: dict[str, Comparison]
    warnings: tuple[str, ...]
    seconds: dict[str, RunSeconds | None]
    choice: Choice
    calibration: Calibration | None = None

    @property
    def runs(self) -> list[Ledger]:
        """That of every run that is asked for without naming arms; a run that two arms share is there once."""
        return _runs(self.ledgers)

    def rows(self) -> list[dict[str, Any]]:
        """Plain values for JSON, one object an arm, and one more for each run of it that has a name of its own."""
        rows = []
        for ledger in self.ledgers:
            comparison = self.comparisons.get(ledger.name)
            said = {
                "note": ledger.arm.note,
                "contingent": ledger.arm.contingent,
                "run_if": ledger.arm.run_if,
                "seeds": list(ledger.arm.seeds),
                "memory_total": ledger.memory_total,
                "flops_conventions": CONVENTIONS,
                "flops_total_trainer": ledger.flops_total_trainer,
                "reference": comparison.reference if comparison else self.study.reference,
                "equal": list(comparison.equal) if comparison else [],
                "different": [str(axis) for axis in comparison.different] if comparison else [],
            }
            row = {**ledger.row(), **said, **self._seconds_row(ledger)}
            rows.append(row)
            for seed, name in ledger.arm.seed_names.items():
                rows.append({**row, "arm": name, "run_of": ledger.name, "seeds": [seed]})
        return rows

    def _seconds_row(self, ledger: Ledger) -> dict[str, Any]:
        """All null without a calibration; seconds_measuring also while the size of what is measured is not known."""
        run, made = self.seconds[ledger.name], self.calibration
        return {
            "seconds_per_run": run and run.total, "seconds_training": run and run.training, "seconds_measuring": run and run.measuring,
            "seconds_total": run and run.total * len(ledger.arm.seeds), "seconds_study": self.choice.seconds,
            "jobs": made and self.choice.jobs, "threads": made and self.choice.threads, "calibrated": made and made.made,
        }  # fmt: skip


def plan(study: Study, calibration: Calibration | None = None) -> Plan:
    """Draw up the plan of `study`. Words, epochs and the end of the first pass are known where its text is prepared already, seconds where
    this machine is calibrated."""
    known: dict[tuple[Data, int, int], Extent | None] = {}
    ledgers = []
    for arm in study.arms:
        key = (arm.data, arm.recipe.context, arm.recipe.batch)
        if key not in known:
            known[key] = extent(arm)
        size = known[key]
        ledgers.append(account(arm, vocab(arm.data.tokenizer), size and size.tokens, size and size.words))
    sizes = [known[arm.data, arm.recipe.context, arm.recipe.batch] for arm in study.arms]
    parts = {arm.name: size and size.parts for arm, size in zip(study.arms, sizes, strict=True)}
    choice, seconds = _seconds(study, ledgers, parts, calibration)
    return Plan(study, tuple(ledgers), compare(ledgers, study.reference), tuple(confounds(ledgers)), seconds, choice, calibration)


def _runs(ledgers: Iterable[Ledger]) -> list[Ledger]:
    found: dict[str, Ledger] = {}
    for ledger in ledgers:
        for seed in ledger.arm.seeds if depends_on(ledger.arm) is None else ():
            found.setdefault(run_fingerprint(ledger.arm, seed, fingerprint(ledger.arm.data)), ledger)
    return list(found.values())


def _seconds(study: Study, ledgers: list[Ledger], parts: dict[str, dict[str, int] | None],
             calibration: Calibration | None) -> tuple[Choice, dict[str, RunSeconds | None]]:  # fmt: skip
    """The choice is made for the runs that are asked for without naming arms, in the order in which they are begun."""
    asked = sorted(_runs(ledgers), key=lambda ledger: (ledger.name != study.reference, -ledger.flops_total))
    runs = [(ledger.arm, ledger.vocab, parts[ledger.name]) for ledger in asked]
    choice = choose(runs, study.evaluate, calibration, calibration.cores if calibration else 1)
    if calibration is None:
        return choice, dict.fromkeys(parts)
    return choice, {
        ledger.name: run_seconds(calibration, ledger.arm, ledger.vocab, study.evaluate, parts[ledger.name], choice.threads)
        for ledger in ledgers
    }
