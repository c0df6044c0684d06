"""How a worker says that it has ended, and what every worker has: agreed between the launcher and the worker."""

from __future__ import annotations

DONE, FAILED, STOPPED, BUSY = 0, 1, 3, 75  # exit codes; BUSY: another process has the run
THREADS = 1  # results are bit-equal only with the same number, and one thread a run is the fastest for small models
