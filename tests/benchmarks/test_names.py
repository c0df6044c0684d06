"""`python benchmarks` knows every benchmark by name."""

from __future__ import annotations

import runpy
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_every_benchmark_has_its_name(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    names = runpy.run_path(str(FOLDER / "__main__.py"))["NAMES"]
    files = {file.stem for file in FOLDER.glob("*.py") if "    main(measure, __doc__)" in file.read_text(encoding="utf-8")}
    assert files == set(names)
