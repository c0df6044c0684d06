"""The one file that is written: whole, self-contained, the same classes as the two modules it is made of."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from ostinato.export.source import modeling_source


def names(text):
    return {node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def test_it_needs_torch_and_transformers_alone():
    text = modeling_source()
    found = {alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
    rooms = {name.split(".")[0] for name in found}
    assert rooms - {"torch", "transformers"} <= set(sys.stdlib_module_names) and {"torch", "transformers"} <= rooms
    assert "from ostinato" not in text and "import ostinato" not in text


def test_nothing_of_the_two_modules_is_lost():
    pytest.importorskip("transformers")
    from ostinato.export import modeling, modeling_parts

    halves = [Path(module.__file__).read_text(encoding="utf-8") for module in (modeling_parts, modeling)]
    whole = modeling_source()
    assert whole.startswith('"""An exported ostinato run') and whole.splitlines()[-2:] != ["", ""]
    assert names(whole) == names(halves[0]) | names(halves[1]) and not names(halves[0]) & names(halves[1])
    for half in halves:
        last = [node for node in ast.parse(half).body if isinstance(node, ast.Import | ast.ImportFrom)][-1]
        assert "\n".join(half.splitlines()[last.end_lineno :]).strip() in whole
