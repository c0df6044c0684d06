"""ostinato: controlled experiments on language models that apply their layers more than once."""

from __future__ import annotations

from ostinato.lazy import given_when_asked

__version__ = "0.6.0"
_VERBS = ("Study", "calibrate", "check", "check_registration", "corpora", "draw_schedule", "export_run", "find_run", "fit", "generate",
          "judge_replay", "keys", "list_runs", "list_studies", "new", "open_store", "query", "report_replay",
          "take_measures")  # fmt: skip
__all__ = [*_VERBS, "__version__"]
__getattr__ = given_when_asked(__name__, dict.fromkeys(_VERBS, "api"))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
