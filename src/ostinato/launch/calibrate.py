"""`calibrate`: a minute that tells what this machine does. Real training steps of small models, as studies run them.

On a CPU twice: one thread a process and as many processes as cores, because they share memory and caches, and then one process with all
threads. What the steps took is fitted (`ledger/seconds.py`) and kept in the cache folder. No torch here; the probes are processes.
"""

from __future__ import annotations

import contextlib
import json
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ostinato.errors import TrainingError
from ostinato.files import default_cache
from ostinato.launch.probes import COMPILED, CPU, GPU, Probe
from ostinato.launch.process import gpu_names, worker_environment
from ostinato.ledger.seconds import ROUGH, Calibration, CompiledProbe, Pace, fit
from ostinato.ledger.work import FORWARD, STEP, measuring_work, step_work
from ostinato.store.calibration import calibration_key, made_now, write_calibration
from ostinato.store.environment import DEVICES, need_compiler
from ostinato.study.records import Evaluate

SECONDS = 0.25  # for each probe, or two steps of it
MOST_SECONDS = 60.0  # of all probes of a process; then those that are left are not taken, because the machine is busy
MOST_AT_ONCE = 16
SILENT_SECONDS = 300.0
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Calibrated:
    """A calibration, the file it is kept in (None: the cache folder cannot be written), and the seconds that it took."""

    calibration: Calibration
    path: Path | None
    seconds: float

    def __str__(self) -> str:
        made, kept = self.calibration, f"kept in {self.path}" if self.path else "not kept: the cache folder cannot be written"
        lines = [f"{made.device}: calibrated in {self.seconds:.0f} s, {kept}"]
        for pace in made.paces:
            lines.append(f"  {pace.at_once} x {pace.threads} thread{'s' if pace.threads > 1 else ''}, {pace.dtype}: {pace.start:.1f} s to "
                         f"start a run; steps within {pace.error:.0%} of what was measured (median)")  # fmt: skip
        if any(pace.error > ROUGH for pace in made.paces):
            lines.append("  rough: this machine had other work meanwhile; calibrate again when it has none")
        lines += [f"  compiled, width {one.width}: {one.ratio:.2f} times as fast after {one.seconds:.0f} s" for one in made.compiled]
        return "\n".join(lines)

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        made = self.calibration
        paces = [{"threads": pace.threads, "at_once": pace.at_once, "dtype": pace.dtype, "start_seconds": pace.start,
                  "median_error": pace.error} for pace in made.paces]  # fmt: skip
        compiled = [{"width": one.width, "ratio": one.ratio, "seconds": one.seconds} for one in made.compiled]
        return {"device": made.device, "cores": made.cores, "made": made.made, "paces": paces, "compiled": compiled,
                "file": str(self.path) if self.path else None, "seconds": self.seconds}  # fmt: skip


def calibrate(device: str = "auto", compiled: bool = False, cache: Path | None = None, progress: Progress | None = None,
              probes: Sequence[Probe] | None = None, seconds: float = SECONDS) -> Calibrated:  # fmt: skip
    """Measure this machine and keep the result in `cache` (None: the default one).

    compiled: compile a few of the models, too, which takes minutes.  progress(stage, share): told after every probe.
    probes: None for those of the device.  seconds: of each probe.  Raises TrainingError when a probe's process fails, or says nothing.
    """
    if device not in DEVICES:
        raise TrainingError(f"device {device!r}", f"a device is one of {', '.join(DEVICES)}", "use auto")
    began, key, gpu = time.monotonic(), calibration_key(device), gpu_names(device)
    if device == "cuda" and not gpu:
        raise TrainingError("device cuda", "this machine has no GPU that is visible", "use --device auto or cpu")
    if compiled and not gpu:
        need_compiler(TrainingError, "compiling on a CPU", "leave out --compile")
    cores, probes = key["cores"], probes or (GPU if gpu else CPU)
    if gpu:
        turns = [(1, 1, "bfloat16"), (1, 1, "float32")]
    else:
        turns = [(1, min(cores, MOST_AT_ONCE), "float32")] + ([(cores, 1, "float32")] if cores > 1 else [])
    total = sum(at_once * len(probes) for _, at_once, _ in turns) + (len(COMPILED) if compiled else 0)
    count, paces, kept = 0, [], []

    def told(said: dict[str, Any]) -> None:
        nonlocal count
        count += "step" in said
        if progress and "step" in said:
            progress(f"{said['at_once']} x {said['threads']} thread{'s' if said['threads'] > 1 else ''}", count / total)

    if progress:
        progress("starting", 0.0)
    for threads, at_once, dtype in turns:
        found = _measured("cuda" if gpu else "cpu", dtype, threads, at_once, probes, seconds, False, gpu[0] if gpu else None, told)
        paces.append(_pace(found, probes, threads, at_once, dtype))
        kept.append({"threads": threads, "at_once": at_once, "dtype": dtype, "found": found})
    tried = ()
    if compiled:
        dtype = "bfloat16" if gpu else "float32"
        found = _measured("cuda" if gpu else "cpu", dtype, 1, 1, COMPILED, seconds, True, gpu[0] if gpu else None, told)
        tried = tuple(CompiledProbe(COMPILED[said["probe"]].width, said["ratio"], said["compiling"])
                      for said in found if "ratio" in said)  # fmt: skip
    made = Calibration(key["device"], cores, made_now(), tuple(paces), tried)
    try:
        path = write_calibration(cache or default_cache(), key, made, kept)
    except OSError:
        path = None
    return Calibrated(made, path, time.monotonic() - began)


def _measured(device: str, dtype: str, threads: int, at_once: int, probes: Sequence[Probe], seconds: float, compiled: bool,
              gpu: str | None, told: Callable[[dict[str, Any]], None]) -> list[dict[str, Any]]:  # fmt: skip
    """What all processes said; each begins at another place of the list."""
    lines: queue.Queue[tuple[int, str | None]] = queue.Queue()
    processes, found, done, began = [], [], 0, time.monotonic()
    environment = worker_environment(gpu, threads)
    with contextlib.ExitStack() as held:
        if compiled:  # as if for the first time
            environment["TORCHINDUCTOR_CACHE_DIR"] = held.enter_context(tempfile.TemporaryDirectory())
        held.callback(_end, processes)
        for index in range(at_once):
            request = {"device": device, "dtype": dtype, "threads": threads, "seconds": seconds, "most": MOST_SECONDS, "compiled": compiled,
                       "probes": [asdict(probe) for probe in probes], "turn": index * len(probes) // at_once}  # fmt: skip
            process = subprocess.Popen([sys.executable, "-m", "ostinato.launch.probe", json.dumps(request)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env=environment)  # fmt: skip
            processes.append(process)
            threading.Thread(target=_read, args=(process.stdout, index, lines), daemon=True).start()
        while done < at_once:
            try:
                index, line = lines.get(timeout=SILENT_SECONDS)
            except queue.Empty:
                raise _failed("nothing was heard of a probe for five minutes") from None
            if line is None:
                said = (processes[index].stderr.read() or "").strip().splitlines()[-1:]
                raise _failed(f"a probe's process ended: {' '.join(said) or f'exit code {processes[index].wait()}'}")
            said = json.loads(line) | {"threads": threads, "at_once": at_once}
            if "ready" in said:
                said["start"] = time.monotonic() - began
            done += "done" in said
            found.append(said)
            told(said)
    return found


def _end(processes: Sequence[subprocess.Popen]) -> None:
    for process in processes:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()


def _read(pipe: Any, index: int, lines: queue.Queue[tuple[int, str | None]]) -> None:
    try:
        for line in pipe:
            lines.put((index, line))
    except ValueError:  # closed, because the calibration is over
        return
    lines.put((index, None))


def _failed(what: str) -> TrainingError:
    return TrainingError(what, "a calibration takes training steps of small models in processes of their own",
                         "give `ostinato calibrate` again; studies run without it, too")  # fmt: skip


def _pace(found: Sequence[dict[str, Any]], probes: Sequence[Probe], threads: int, at_once: int, dtype: str) -> Pace:
    taken = {index: [said for said in found if said.get("probe") == index and "step" in said] for index in range(len(probes))}
    taken = {index: found for index, found in taken.items() if found}
    probes = [probes[index] for index in taken]
    arms = [probe.arm(dtype) for probe in probes]
    works = [step_work(arm, probe.vocab) for arm, probe in zip(arms, probes, strict=True)]
    step, error = fit(works, [min(said["step"] for said in taken[index]) for index in taken], STEP)
    evaluate = Evaluate()
    reads = [measuring_work(arm, probe.vocab, probe.context, 0.5, 2.0 * taken[index][0]["scored"], evaluate.batch)
             for index, arm, probe in zip(taken, arms, probes, strict=True)]  # fmt: skip
    forward, _ = fit(reads, [min(said["forward"] for said in taken[index]) for index in taken], FORWARD)
    start = statistics.mean(said["start"] for said in found if "start" in said)
    return Pace(threads, at_once, dtype, step, forward, start, error)
