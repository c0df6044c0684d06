"""What cannot be estimated is refused in words: a reason, and what would make it estimable."""

from __future__ import annotations

from ostinato.errors import OstinatoError


class NotEstimable(OstinatoError):
    """There is no such number for these measurements; `what` is the reason in words. The clause or row that asked shows it, and goes on."""

    @property
    def reason(self) -> str:
        """In one line."""
        return self.what
