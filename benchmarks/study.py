"""A whole desk study of 8 runs as `ostinato run` does it on this machine, against the same runs one after another with all threads.

    python benchmarks/study.py [--quick] [--json study.json]

The arms and seeds of the shipped quickstart on the standard library's documentation, fewer tokens. Both ways are real `ostinato run`s in
stores of their own, with the text prepared and the machine calibrated beforehand; start-up, measuring and the report count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import Row, main

TOKENS, QUICK_TOKENS = 76_800, 10_240
ASKED = 1.3


def ran(study: Path, folder: Path, *more: str) -> tuple[float, float, str]:
    """Seconds of the whole command, seconds that its runs trained together, and the line that says how they ran."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "ostinato", "run", str(study), "--store", str(folder), *more],
                          capture_output=True, text=True)  # fmt: skip
    seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    from ostinato.store import Store

    training = sum(run.training_seconds() for run in Store(folder).runs())
    return seconds, training, next((line for line in done.stdout.splitlines() if "at a time" in line), "")


def measure(quick: bool) -> list[Row]:
    from ostinato.data.prepare import prepare
    from ostinato.launch.calibrate import calibrate
    from ostinato.study import load_study, shipped

    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        os.environ["OSTINATO_CACHE"] = str(root / "cache")
        text = (Path(load_study.__code__.co_filename).parent / "shipped" / "quickstart.yaml").read_text(encoding="utf-8")
        assert "quickstart" in shipped() and "tokens: 300k" in text and "every: 100k" in text
        tokens = QUICK_TOKENS if quick else TOKENS
        study = root / "desk.yaml"
        study.write_text(text.replace("tokens: 300k", f"tokens: {tokens}").replace("{every: 100k}", "{targets: 20k}"), encoding="utf-8")
        prepare(load_study(str(study)).arms[0].data)
        made = calibrate("cpu")
        ours, training, how = ran(study, root / "ours")
        peer, peer_training, _ = ran(study, root / "peer", "--jobs", "1", "--threads", str(made.calibration.cores))
        planned = json.loads(subprocess.run([sys.executable, "-m", "ostinato", "plan", str(study), "--json"], capture_output=True,
                                            text=True, check=True).stdout)[0]["seconds_study"]  # fmt: skip
    notes = {"how": how, "the plan said": f"{planned:.0f} s", "training, all runs together": f"{training:.0f} s, {peer_training:.0f} s"}
    return [Row("a desk study of 8 runs", ours, peer, "s", peer / ours, ASKED, False, "one after another, all threads", notes)]


if __name__ == "__main__":
    main(measure, __doc__)
