"""Arms that wait for a result (`run_if`): run by themselves once their condition holds, else said and logged as not run, with the numbers.

The condition is read again after every round of runs, so an arm may wait for an arm that waits itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ostinato.judge.contingent import contingent_arms
from ostinato.judge.verdicts import FAILED, NOT_RUN, PARTIAL, UNDECIDED
from ostinato.launch.jobs import Job, unfinished
from ostinato.store import Store
from ostinato.study.records import Study

WORDS = {NOT_RUN: "is not run", UNDECIDED: "cannot be decided yet", FAILED: "failed", PARTIAL: "is not at its end"}


def called_for(study: Study, store: Store, jobs: Sequence[Job], seeds: Collection[int] | None, tried: Collection[str],
               tell: Callable[[str], None]) -> list[Job]:  # fmt: skip
    """The runs of contingent arms whose condition holds now, finished or not.  jobs: all of the study; tried: runs of this launch."""
    holding = {name: found for name, found in contingent_arms(study, store).items() if found.holds}
    wanted = [job for job in jobs if job.arm.name in holding and (not seeds or job.seed in seeds) and job.fingerprint not in tried]
    for name in dict.fromkeys(job.arm.name for job in unfinished(wanted, study.reference)):
        tell(f"{name} runs: {holding[name].reason}")
    return wanted


def say_the_rest(study: Study, store: Store, tell: Callable[[str], None]) -> None:
    """Say of every contingent arm that does not run why; the study's log keeps what became of each, when that is news."""
    folder = store.study_folder(study.name)
    known = {event["arm"]: (event["state"], event["reason"]) for event in folder.events() if event["event"] == "contingent"}
    for name, found in contingent_arms(study, store).items():
        if found.state in WORDS:
            tell(f"{name} {WORDS[found.state]}: {found.reason}")
        if known.get(name) != (found.state, found.reason):
            folder.log("contingent", arm=name, state=found.state, reason=found.reason)
