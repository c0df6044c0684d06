"""Memory kept between steps, and given back after a session."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys

import pytest

from ostinato.train import heap

needs_glibc = pytest.mark.skipif(not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")
SCRIPT = """
import resource, torch
from ostinato.train.heap import kept

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        a, b = torch.ones(2**22), torch.ones(2**23)  # 16 and 32 MB
        del a, b
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
without = faults()
with kept() as changed:
    faults()
    within = faults()
pages = int(open("/proc/self/statm").read().split()[1])
with kept():
    torch.ones(2**25)  # 128 MB
more = int(open("/proc/self/statm").read().split()[1]) - pages
print(changed, without, within, more)
"""


@needs_glibc
def test_steps_within_touch_no_new_pages_and_the_end_gives_them_back():
    environment = {name: value for name, value in os.environ.items() if name not in heap.VARIABLES}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    changed, without, within, more = done.stdout.split()
    page = resource.getpagesize()
    assert changed == "True" and int(without) > 40e6 / page > 100 > int(within)
    assert int(more) * page < 64e6


def test_what_a_user_has_set_stays(monkeypatch):
    monkeypatch.setattr(heap, "_glibc", lambda: pytest.fail("changed"))
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000")
    with heap.kept() as changed:
        assert changed is False


def test_without_glibc_nothing_is_done(monkeypatch):
    for name in heap.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    with heap.kept() as changed:
        assert changed is False
