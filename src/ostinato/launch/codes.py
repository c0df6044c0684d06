"""How a worker, or the process of a tracker, says that it has ended, and what every worker has."""

from __future__ import annotations

DONE, FAILED, STOPPED, BUSY = 0, 1, 3, 75  # exit codes; BUSY: another process has the run
SAID = 4  # of a tracker's process: it gave up, and has said so
THREADS = 1  # of a run, unless it began with others or the calibration finds more to be faster
