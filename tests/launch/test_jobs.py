"""Which runs are due: missing, unfinished, failed, or not measured at every point; the reference arm's first, then the longest;
contingent ones only by name."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from ostinato.data.targets import targets
from ostinato.errors import DataError, StudyError
from ostinato.launch import due
from ostinato.launch.jobs import all_jobs, prepare_texts, resolved, select, write_floors
from ostinato.study.records import Arm, Evaluate


def finish(job, study, points=None):
    """What a worker would have left behind."""
    job.folder.write_record({}, {}, {})
    for part in ("validation", "held_out"):
        wanted = targets(job.prepared, part, study.evaluate, job.arm.recipe.context)
        for point in points or job.points:
            job.folder.write_losses(part, point, np.ones(len(wanted)), wanted)
    job.folder.set_status("done")


def names(jobs):
    return [(job.arm.name, job.seed) for job in jobs]


def test_all_are_due_at_first_the_reference_before_the_longest(tiny, store):
    assert names(due(tiny(), store)) == [("plain", 1), ("plain", 2), ("twice", 1)]
    assert not store.root.exists(), "asking writes nothing"


def test_contingent_arms_only_by_name(tiny, store):
    assert names(due(tiny(), store, arms=["later", "plain"])) == [("plain", 1), ("plain", 2), ("later", 1)]
    assert names(due(tiny(), store, arms=["plain"], seeds=[2])) == [("plain", 2)]


def test_done_failed_stopped(tiny, store):
    study = tiny()
    jobs = {(job.arm.name, job.seed): job for job in due(study, store)}
    finish(jobs["plain", 1], study)
    jobs["plain", 2].folder.set_status("failed", error="x")
    jobs["twice", 1].folder.set_status("stopped")
    assert names(due(study, store)) == [("plain", 2), ("twice", 1)]


def test_a_run_that_lacks_a_point_is_due(tiny, store):
    study = tiny()
    job = next(job for job in due(study, store) if job.name == "plain, seed 1")
    assert tuple(job.points) == (640, 1280)
    finish(job, study, points=[1280])
    assert job.state() == "unmeasured" and ("plain", 1) in names(due(study, store))
    finish(job, study)
    assert ("plain", 1) not in names(due(study, store))
    more = tiny(every="320")
    assert ("plain", 1) in names(due(more, store)), "another study asks for more points of the same run"
    other = tiny(evaluate=Evaluate(every="640", stride=3))
    assert ("plain", 1) in names(due(other, store)), "other windows are other measurements"


def test_a_run_that_two_arms_share_is_due_once(tiny, store):
    study = tiny()
    twin = study.arms[0].model_copy(update={"name": "twin"})
    study = study.model_copy(update={"arms": (*study.arms, twin)})
    jobs = due(study, store)
    assert names(jobs) == [("plain", 1), ("plain", 2), ("twice", 1)]


def test_work_counts_training_and_measuring(tiny, store):
    job = next(job for job in due(tiny(), store) if job.arm.name == "twice")
    assert job.work > job.ledger.flops_total and job.work_done(0) == 0
    assert job.work_done(640) == 640 * job.ledger.flops_per_token
    assert job.work - job.work_done(1280) == pytest.approx(sum(job.part_flops.values())), "the last measurement is still to be made"
    limited = next(job for job in due(tiny(evaluate=Evaluate(every="640", targets=500)), store) if job.arm.name == "twice")
    assert limited.measuring_work < job.measuring_work
    once = next(job for job in due(tiny(evaluate=Evaluate(every="640", held_out="end")), store) if job.arm.name == "twice")
    assert once.measuring_work == job.measuring_work - job.part_flops["held_out"]


def test_unknown_names_are_told(tiny, store):
    jobs = all_jobs(tiny(), store, prepare_texts(tiny()))
    with pytest.raises(StudyError, match="did you mean twice"):
        select(jobs, arms=["twise"])
    with pytest.raises(StudyError, match="the seeds of these arms are 1, 2"):
        select(jobs, seeds=[3])


def test_a_text_smaller_than_one_step_is_refused_before_anything_runs(tiny, store):
    study = tiny()
    arm = study.arms[0]
    recipe = arm.recipe.model_copy(update={"batch": 10**6, "tokens": 10**7})
    study = study.model_copy(update={"arms": (arm.model_copy(update={"recipe": recipe}),)})
    with pytest.raises(DataError, match="arm plain: the training part packs into"):
        due(study, store)


def test_what_is_recorded_rebuilds_the_arm(tiny, store):
    study = tiny()
    job = due(study, store)[0]
    content = resolved(job, study)
    assert Arm.model_validate(content["arm"]) == job.arm
    assert (
        content["ledger"]["tokens"] == 1280
        and content["ledger"]["first_pass_ends"] > 0
        and content["data_fingerprint"] == job.prepared.fingerprint
    )


def test_classes_are_completed_where_they_are_missing(tiny, store):
    study = tiny()
    jobs = due(study, store)
    write_floors(jobs, store, study.evaluate)
    data, paths = jobs[0].prepared.fingerprint, sorted((store.root / "classes").iterdir())
    assert len(paths) == 2, "of both parts"
    paths[0].unlink()
    other = paths[1].stat().st_mtime_ns
    write_floors(jobs, store, study.evaluate)
    for part in ("validation", "held_out"):
        wanted = targets(jobs[0].prepared, part, study.evaluate, 16)
        found = store.classes(wanted.id, data)
        assert (found.position == wanted.position).all() and (found.match >= found.in_view).all() and (found.match > 0).any()
    assert paths[1].stat().st_mtime_ns == other


def test_floors_are_counted_once(tiny, store):
    study = tiny()
    jobs = due(study, store)
    write_floors(jobs, store, study.evaluate)
    wanted = targets(jobs[0].prepared, "validation", study.evaluate, 16)
    floors = store.floors(wanted.id, jobs[0].prepared.fingerprint)
    assert 0 < floors["bigram"] < floors["unigram"]
    store.write_floors(wanted.id, jobs[0].prepared.fingerprint, {"unigram": 1.0})
    write_floors(jobs, store, study.evaluate)
    assert store.floors(wanted.id, jobs[0].prepared.fingerprint) == {"unigram": 1.0}


def test_planning_a_launch_needs_no_torch():
    subprocess.run([sys.executable, "-c", "import sys, ostinato.launch; assert 'torch' not in sys.modules"], check=True)


def test_work_is_counted_in_seconds_where_the_machine_is_calibrated(tiny, store):
    from ostinato.ledger.seconds import Calibration, Pace

    rates = {"products": 1e-10}
    made = Calibration("made up", 2, "2026-11-30T00:00:00+00:00", (Pace(1, 2, "float32", rates, rates, 2.0),))
    job = next(job for job in due(tiny(), store) if job.arm.name == "twice").timed(made, tiny().evaluate, 1)
    assert job.work == job.seconds.start + job.seconds.training + job.seconds.measuring > 2.0
    assert job.work_done(0) == 0 and job.work_done(640) == pytest.approx(2.0 + job.seconds.training / 2)
    assert job.work_done(1280, 1.0) == pytest.approx(job.work)
    assert job.measuring_work == pytest.approx(job.seconds.measuring)
