"""What a result may depend on besides the study: versions, hardware, and the git state of the working folder. No torch import."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import ostinato
from ostinato.errors import OstinatoError

DEVICES = ("auto", "cpu", "cuda")
"""What a run may be told to use; auto takes a GPU where there is one."""
PACKAGES = ("torch", "numpy", "tokenizers", "safetensors", "pyarrow", "duckdb", "scipy", "pydantic")


def environment(folder: Path | None = None) -> dict[str, Any]:
    """Versions, hardware and the git state of `folder` (default: the working folder). What cannot be found out is null, never an error."""
    return {
        **machine(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "folder": str(folder or Path.cwd()),
        "git": git_state(folder or Path.cwd()),
    }


@functools.cache
def machine() -> dict[str, Any]:
    """versions (of the code, Python and the packages that numbers depend on) and hardware."""
    import psutil

    return {"versions": versions(),
            "hardware": {"system": platform.platform(), "cpu": cpu_model(), "cores": psutil.cpu_count(logical=False),
                         "threads": psutil.cpu_count(), "usable": usable_cores(), "memory_bytes": psutil.virtual_memory().total,
                         "gpus": gpus()}}  # fmt: skip


def versions() -> dict[str, str | None]:
    """Of the code, Python and the packages that numbers depend on, without importing any; null for one that is not installed."""
    return {"ostinato": ostinato.__version__, "ostinato_source": source_hash(), "python": platform.python_version(),
            **{name: _version(name) for name in PACKAGES}}  # fmt: skip


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def source_hash() -> str:
    """sha256 over the Python files of the installed package (16 hex digits): tells two builds of one version apart."""
    root, digest = Path(ostinato.__file__).parent, hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def cpu_model() -> str | None:
    """The name of the processor as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith(("model name", "Hardware")))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine() or None


def usable_cores() -> int:
    """Cores that this process may use: by its affinity mask and its container's quota, never more than the physical cores."""
    import psutil

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(allowed, psutil.cpu_count(logical=False) or allowed, _quota() or allowed))


def _quota() -> int | None:
    """Whole cores that a container (cgroup v2) allows, None without a limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return max(1, round(int(quota) / int(period)))
    except (OSError, ValueError):
        return None


def no_compiler() -> str | None:
    """What a CPU's code cannot be compiled without and is not there; None when all is."""
    compiler = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if shutil.which(compiler) is None:
        return f"the C++ compiler {compiler}"
    return None if header.exists() else f"Python's headers ({header})"


def need_compiler(refusal: type[OstinatoError], what: str, instead: str) -> None:
    """Raise `refusal` where a CPU's code cannot be compiled.  what: was asked for.  instead: how to do without."""
    if missing := no_compiler():
        raise refusal(f"{what} without {missing}", "torch makes C++ of a model, and a program of that",
                      f"install it (g++ and python3-dev), name another compiler in CXX, or {instead}")  # fmt: skip


def gpus() -> list[dict[str, str]]:
    """Name, memory and driver of every NVIDIA GPU, [] without any."""
    lines = _output(["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"])
    keys = ("name", "memory", "driver")
    return [
        dict(zip(keys, (part.strip() for part in line.split(",")), strict=False)) for line in (lines or "").splitlines() if line.strip()
    ]


def git_state(folder: Path) -> dict[str, Any] | None:
    """The commit of the folder and whether files differ from it; null without git or outside a repository."""
    commit = _output(["git", "-C", str(folder), "rev-parse", "HEAD"])
    if not commit:
        return None
    status = _output(["git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no"])
    branch = _output(["git", "-C", str(folder), "rev-parse", "--abbrev-ref", "HEAD"])
    return {"commit": commit.strip(), "branch": (branch or "").strip() or None, "dirty": None if status is None else bool(status.strip())}


def file_state(file: Path | None) -> dict[str, str | None]:
    """The commit of the repository that a file lies in, and the file beside it: `as committed`, `changed since` or `not committed`.

    Where no commit is known `why` says why; never an error.
    """
    if file is None:
        return {"commit": None, "why": "the study was not read from a file"}
    folder, state = file.parent, git_state(file.parent)
    if state is None:
        if shutil.which("git") is None:
            return {"commit": None, "why": "git is not installed"}
        inside = _output(["git", "-C", str(folder), "rev-parse", "--git-dir"])
        return {"commit": None, "why": "its repository has no commit yet" if inside else "it is in no git repository that can be read"}
    tracked = _output(["git", "-C", str(folder), "ls-files", "--error-unmatch", "--", file.name])
    changed = _output(["git", "-C", str(folder), "status", "--porcelain", "--", file.name])
    words = "not committed" if tracked is None else "as committed" if changed == "" else "changed since"
    return {"commit": state["commit"], "branch": state["branch"], "file": words}


def _output(command: list[str]) -> str | None:
    """What the command prints, None when it is not there, fails or takes over five seconds."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False, errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
