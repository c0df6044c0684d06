"""Which runs of a study are due, and their worker processes. This side imports no torch; the workers do."""

from ostinato.launch.jobs import Job, due
from ostinato.launch.pool import Outcome
from ostinato.launch.run import run_study
from ostinato.launch.view import RunView, StudyView

__all__ = ["Job", "Outcome", "RunView", "StudyView", "due", "run_study"]
