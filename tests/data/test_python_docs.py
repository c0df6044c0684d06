from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ostinato.data import python_docs
from ostinato.data.corpus import find
from ostinato.data.python_docs import docstrings, gather, key
from ostinato.errors import DataError
from ostinato.study.records import Data

SOURCE = b'''"""Module."""
def outer():
    """Outer
       indented.
    """
    def inner():
        """Inner."""
class C:
    x = """not a docstring"""
    if x:
        def m(self):
            """In an if."""
    async def n(self):
        "single quotes count in a file that has triple ones"
try:
    pass
except ImportError:
    def late():
        """In a handler."""
'''


def test_docstrings_come_in_file_order_cleaned_and_from_every_block():
    assert docstrings(SOURCE) == [
        "Module.", "Outer\nindented.", "Inner.", "In an if.", "single quotes count in a file that has triple ones", "In a handler."
    ]  # fmt: skip


@pytest.mark.parametrize("source", [b"x = 1", b'"""unclosed', b'"""a"""\nprint "old"', b'"""a"""\n\0', b'"""\xff"""'])
def test_files_without_docstrings_or_that_do_not_parse_give_none(source):
    assert docstrings(source) == []


def test_the_standard_library_is_gathered_in_a_fixed_order():
    seen = []
    documents = list(gather("python-docs", lambda stage, done, total: seen.append((done, total))))
    names = [name for name, _ in documents]
    assert len(set(names)) == len(names) > 400
    assert names[0] == "topic assert" and "argparse" in names and "asyncio.tasks" in names
    assert not [name for name in names if {"test", "tests", "idlelib", "site-packages"} & set(name.split("."))]
    assert 1_500_000 < sum(len(text.encode()) for _, text in documents) < 4_000_000
    assert all(len(text.encode()) >= python_docs.SHORTEST for name, text in documents if not name.startswith("topic"))
    assert seen[0][0] == 0 and seen[-1][0] == seen[-1][1]
    sources = python_docs._sources(python_docs._library())
    assert sources == sorted(sources, key=lambda file: file.parts) and len(sources) == seen[-1][1]


def test_gathered_text_is_cached_under_a_key_that_names_its_sources(cache, monkeypatch):
    monkeypatch.setattr(python_docs, "gather", lambda name, progress: iter([("a", "text of a"), ("b", "é")]))
    first = find(Data(corpus="python-docs", field="other", separator="|"), cache)
    assert [json.loads(line)["text"] for line in Path(first.files[0]).read_text().splitlines()] == ["text of a", "é"]
    monkeypatch.setattr(python_docs, "gather", lambda name, progress: pytest.fail("gathered again"))
    assert find(Data(corpus="python-docs"), cache).identity == first.identity
    monkeypatch.setattr(python_docs, "SHORTEST", 33)
    assert key("python-docs") in first.files[0]
    monkeypatch.setattr(sys, "version", "3.99")
    assert key("python-docs") not in first.files[0]


def test_a_package_adds_its_modules_and_is_not_imported():
    code = (
        "import sys; from ostinato.data import python_docs as p; p.PACKAGES = ('numpy',);"
        "names = [n for n, _ in p.gather('python-docs-plus')]; p.PACKAGES = ('torch',); p._folder('torch');"
        "print(sum(n.startswith('numpy.') for n in names), any('tests' in n.split('.') for n in names), 'torch' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert int(output[0]) > 80 and output[1:] == ["False", "False"]


def test_a_package_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(python_docs, "PACKAGES", ("no_such_package",))
    with pytest.raises(DataError, match="no_such_package is not installed"):
        list(gather("python-docs-plus"))
    with pytest.raises(DataError, match="pip install no_such_package"):
        key("python-docs-plus")


def test_a_python_without_source_files_is_told_so(monkeypatch, tmp_path):
    monkeypatch.setattr(python_docs, "_library", lambda: tmp_path)
    with pytest.raises(DataError, match="0 Python source files"):
        list(gather("python-docs"))
