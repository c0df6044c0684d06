"""The modeling file of an export: two modules of this room as one, for a folder must load where ostinato is not installed.

`modeling_parts` and `modeling` are ordinary modules, checked and tested as such; only what one imports of the other is left out here.
Nothing in ostinato imports them: they need transformers, which writing an export does not.
"""

from __future__ import annotations

import ast
from pathlib import Path

HALVES = ("modeling_parts.py", "modeling.py")
OTHERS = ("torch", "transformers")


def modeling_source() -> str:
    """The text of the one file: the docstring of `modeling`, the imports of both, the code of both."""
    texts = [Path(__file__).with_name(name).read_text(encoding="utf-8") for name in HALVES]
    doc = ast.get_docstring(ast.parse(texts[-1]), clean=False)
    standard, others = _imports([node for text in texts for node in _nodes(text)])
    head = [f'"""{doc}"""\n', "from __future__ import annotations\n", *standard, "", *others, "\n"]
    return "\n".join([*head, "\n\n".join(map(_code, texts))])


def _nodes(text: str) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]


def _imports(nodes: list[ast.Import | ast.ImportFrom]) -> tuple[list[str], list[str]]:
    """Lines that import from the standard library and from elsewhere, every name once."""
    whole, parts = set(), {}
    for node in nodes:
        if isinstance(node, ast.Import):
            whole |= {ast.unparse(ast.Import([alias])) for alias in node.names}
        elif node.module != "__future__" and node.module.split(".")[0] != "ostinato":
            parts.setdefault(node.module, set()).update(alias.name for alias in node.names)
    lines = sorted(whole) + [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(parts.items())]
    elsewhere = [line for line in lines if line.split()[1].split(".")[0] in OTHERS]
    return [line for line in lines if line not in elsewhere], elsewhere


def _code(text: str) -> str:
    """What stands under the imports."""
    return "\n".join(text.splitlines()[_nodes(text)[-1].end_lineno :]).strip("\n") + "\n"
