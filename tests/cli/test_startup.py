"""What a verb imports is what it waits for: libraries of arrays, templates and SQL come only where something is made with them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ARRAYS = {"numpy", "pyarrow", "pandas"}
HEAVY = {"torch", "transformers", "tokenizers", "scipy", "duckdb", "jinja2", "ssl", "asyncio"} | ARRAYS
VERBS = {
    "--help": set(),
    "--version": set(),
    "new study.yaml": set(),
    "keys": set(),
    "list": set(),
    "list --runs": set(),
    "plan quickstart": set(),
    "plan loop2 --json": set(),
    "draw quickstart": set(),
    "query 'select * from runs'": {"duckdb"},
    "report quickstart": {"numpy", "pyarrow", "jinja2"},
    "register --help": set(),
    "judge --help": set(),
}
SCRIPT = """
import shlex, sys
from ostinato.cli.main import app
try:
    app(shlex.split(sys.argv[1]), standalone_mode=False)
finally:
    print("imported:", *sorted({name.split(".")[0] for name in sys.modules}))
"""


@pytest.mark.parametrize("words", VERBS)
def test_a_verb_imports_what_it_needs(words, tmp_path):
    environment = os.environ | {"OSTINATO_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", SCRIPT, words], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    found = set(done.stdout.rpartition("imported: ")[2].split())
    assert "ostinato" in found
    assert found & HEAVY <= VERBS[words]
