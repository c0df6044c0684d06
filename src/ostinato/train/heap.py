"""Memory that a training step frees stays with the process, for the next step.

glibc gives large blocks back to the system as soon as they are free and asks for them again: every step then touches thousands of new
pages, which the system fills with zeros first. mallopt(3) says otherwise. Workers are told by their environment (launch/process.py), which
holds from their first allocation on; a session within another process, a notebook's, is told here and gives its memory back at its end.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h."""
KEPT = 10**9
AFTERWARDS = {TRIM_THRESHOLD: 64 * 2**20, MMAP_THRESHOLD: 32 * 2**20}
"""What glibc comes to by itself in a process that frees large blocks; its own choosing cannot be switched on again."""
VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


@contextlib.contextmanager
def kept() -> Iterator[bool]:
    """Freed memory is kept within; whether anything was changed for that. Nothing is where a user has set it, or without glibc."""
    library = None if any(name in os.environ for name in VARIABLES) else _glibc()
    if library is None:
        yield False
        return
    for parameter in AFTERWARDS:
        library.mallopt(parameter, KEPT)
    try:
        yield True
    finally:
        for parameter, value in AFTERWARDS.items():
            library.mallopt(parameter, value)
        library.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
