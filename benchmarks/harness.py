"""How every benchmark here measures: candidates take turns in one process, the median of each, and their ratio beside a target.

Turns put whatever else the machine does on all candidates alike; medians forget the worst of it. A row is one claim: what ours takes,
what the peer takes, how many times better ours is, and what was asked for.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HOW_TO_READ = """ratio: how many times better ours is than the peer, asked >=; or, asked <=, ours / the peer's.
A target in a unit (<= 0.5 s) is for ours itself."""
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_ARENA_MAX": "1"}
"""glibc keeps freed memory for the next step: as `ostinato run` sets it for its workers, and here for ours and the peers alike."""


@dataclass(frozen=True)
class Shape:
    """A Llama-like decoder and its batch: d_model, layers, SwiGLU width, vocabulary, context, rows, heads of 32 or 64 channels."""

    width: int
    layers: int
    hidden: int
    vocab: int
    context: int
    rows: int
    heads: int

    @property
    def tokens(self) -> int:
        """Of one step."""
        return self.rows * self.context


SHAPES = {
    "a": Shape(128, 4, 344, 4096, 256, 16, 4),
    "b": Shape(256, 8, 688, 8192, 512, 8, 4),
    "c": Shape(512, 8, 1376, 8192, 512, 4, 8),
}


@dataclass(frozen=True)
class Row:
    """One claim. ours, peer: medians in `unit`.  ratio: how many times better ours is (for `at_most`: ours / peer, or ours itself).

    target: the least ratio, or the most where at_most.  notes: whatever else was found, such as shares of the floor.
    """

    claim: str
    ours: float
    peer: float
    unit: str
    ratio: float
    target: float | None = None
    at_most: bool = False
    peer_name: str = ""
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        return None if self.target is None else self.ratio <= self.target if self.at_most else self.ratio >= self.target


def interleaved(candidates: Mapping[str, Callable[[], Any]], rounds: int, warmup: int = 3) -> dict[str, list[float]]:
    """Seconds of every call, by name: in each round every candidate has one turn, and the order goes backwards every other round."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    names = list(candidates)
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds + warmup):
            for name in names if turn % 2 else reversed(names):
                began = time.perf_counter()
                candidates[name]()
                if turn >= warmup:
                    seconds[name].append(time.perf_counter() - began)
    finally:
        gc.enable()
    return seconds


def medians(seconds: Mapping[str, list[float]]) -> dict[str, float]:
    """Of each candidate."""
    return {name: statistics.median(values) for name, values in seconds.items()}


def paired(ours: list[float], peer: list[float]) -> float:
    """How many times faster ours is: the median over rounds of the ratio within a round, whatever the machine did to that round."""
    return statistics.median(theirs / own for own, theirs in zip(ours, peer, strict=True))


def machine() -> dict[str, Any]:
    """What these numbers were taken on."""
    found: dict[str, Any] = {"machine": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0],
                             "python": platform.python_version()}  # fmt: skip
    found |= {name: os.environ.get(name) for name in KEEP_MEMORY}
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        found |= {"torch": torch.__version__, "threads": torch.get_num_threads(), "cpu": torch.backends.cpu.get_cpu_capability()}
    return found


def table(rows: list[Row]) -> str:
    """One line a claim."""
    lines = [f"{'':58} {'ours':>10} {'peer':>10} {'':9} {'ratio':>7} {'asked':>8}"]
    for row in rows:
        itself = row.ratio == row.ours  # what was asked for is no ratio
        asked = "" if row.target is None else f"{'<=' if row.at_most else '>='} {row.target:g}{f' {row.unit}' if itself else ''}"
        ratio = "" if itself else f"{row.ratio:.2f}"
        verdict = f"{({True: 'yes', False: 'NO', None: ''}[row.met]):4}{row.peer_name}"
        lines.append(f"{row.claim:58} {row.ours:10.4g} {row.peer:10.4g} {row.unit:9} {ratio:>7} {asked:>8} {verdict}")
        lines += [f"    {name}: {value}" for name, value in row.notes.items()]
    return "\n".join([*lines, "", HOW_TO_READ])


def record(row: Row) -> dict[str, Any]:
    """As JSON."""
    return {**asdict(row), "met": row.met}


def main(measure: Callable[[bool], list[Row]], about: str) -> None:
    """The command line of one benchmark: --quick for fewer rounds, --json FILE. Begins again under KEEP_MEMORY if it is not set."""
    if sys.platform == "linux" and any(os.environ.get(name) != value for name, value in KEEP_MEMORY.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | KEEP_MEMORY)
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds: whether it runs, not what it measures")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = measure(given.quick)
    print(table(rows))
    if given.json:
        given.json.write_text(json.dumps({"settings": machine(), "rows": [record(row) for row in rows]}, indent=1) + "\n", encoding="utf-8")
