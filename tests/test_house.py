"""The house stands: imports point one way, and everything left of the model works without torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
ROOMS = ["errors", "lazy", "files", "schedule", "claims", "study", "data", "ledger", "store", "analysis", "judge", "scaling", "report",
         "model", "measure", "export", "train", "launch", "api", "cli", "__main__"]  # fmt: skip
WITHOUT_TORCH = ROOMS[: ROOMS.index("model")]
HEAVY = ("torch", "transformers", "tensorboard")


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted((SOURCE / "ostinato").rglob("*.py"))}


def room_of(module: str) -> str:
    """`ostinato.study.derive` -> `study`; the package itself is `__init__`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imported(path: Path) -> list[tuple[int, str]]:
    """Line and full name of every import of a module of ours, wherever it stands in the file; absolute names only."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports name their module in full"
            found += [(node.lineno, f"{node.module}.{alias.name}" if node.module == "ostinato" else node.module) for alias in node.names]
    return [(line, name) for line, name in found if name.split(".")[0] == "ostinato"]


def against_the_order(module: str, path: Path) -> list[str]:
    """Imports of a room to the right of the module's own."""
    here = room_of(module)
    wrong = []
    for line, name in imported(path):
        there = room_of(name)
        known = there in ROOMS
        if known and ROOMS.index(there) > ROOMS.index(here):
            wrong.append(f"{path.relative_to(SOURCE)}:{line}: {here} imports {there}")
    return wrong


def test_every_module_is_in_a_room():
    assert {room_of(module) for module in MODULES} - {"__init__"} <= set(ROOMS)
    assert len(MODULES) > len(ROOMS) / 2


@pytest.mark.parametrize("module", [module for module in MODULES if room_of(module) != "__init__"])
def test_imports_point_one_way(module):
    assert against_the_order(module, MODULES[module]) == []


def test_a_wrong_import_is_found(tmp_path):
    room = tmp_path / "ledger.py"
    late = "def late():\n    from ostinato.model.decoder import build\n    import ostinato.api\n"
    room.write_text("from ostinato.study import records\n\n" + late)
    assert imported(room) == [(1, "ostinato.study"), (4, "ostinato.model.decoder"), (5, "ostinato.api")]
    room = SOURCE / "ostinato" / "ledger" / "account.py"
    assert against_the_order("ostinato.schedule.terms", room)  # the ledger's imports would be wrong in the schedule's room


def test_everything_left_of_the_model_imports_without_torch():
    """In one new process; a module that imports torch at its top, or through another, is named."""
    modules = [module for module in MODULES if room_of(module) in ("__init__", *WITHOUT_TORCH)]
    script = (
        "import importlib, sys\n"
        f"for name in {modules!r}:\n"
        "    importlib.import_module(name)\n"
        f"    found = [heavy for heavy in {HEAVY!r} if heavy in sys.modules]\n"
        "    if found:\n"
        "        sys.exit(f'{name} imports {found}')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={"PYTHONPATH": str(SOURCE)}, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_command_line_and_the_api_import_without_torch():
    script = "import sys, ostinato, ostinato.api, ostinato.cli.main; sys.exit('torch' in sys.modules and 'torch was imported')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={"PYTHONPATH": str(SOURCE)}, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", MODULES)
def test_a_module_says_what_it_is_for(module):
    """A docstring, unless the file is empty; and it does not outgrow the house."""
    text = MODULES[module].read_text(encoding="utf-8")
    assert not text.strip() or ast.get_docstring(ast.parse(text))
    assert len(text.splitlines()) <= 450
