"""Bytes that are not UTF-8: a few are a policy (U+FFFD, counted), many are text in another encoding, which is an error until it is named.

Where `encoding` names one, a file that is UTF-8 to its last byte is read as such and any other in that encoding: this is what a folder
of old and new files needs, and UTF-8 hardly ever holds by accident. `encoding: utf-8` says that the bytes are noise, however many.
"""

from __future__ import annotations

import codecs
import difflib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from ostinato.data.policies import utf8
from ostinato.data.unpack import opened
from ostinato.errors import DataError

MANY, SHARE = 4, 1 / 1000
"""So many bytes that are not UTF-8, when they are also more than this share, are not noise."""
_KNOWN = ("utf-8", "latin-1", "cp1252", "utf-16", "cp1251", "iso-8859-15", "mac-roman", "shift-jis", "euc-jp", "gb18030", "big5", "euc-kr")
_PIECE = 1 << 20


def check_encoding(name: str | None) -> None:
    """Raises DataError unless Python knows an encoding of text of that name."""
    if name is None:
        return
    try:
        "a".encode(name)
        codecs.getincrementaldecoder(name)
    except (LookupError, UnicodeError):
        near = difflib.get_close_matches(name.lower(), _KNOWN, 1, 0.5)
        raise DataError(
            f"no encoding {name!r}", "an encoding is one that Python knows by name", f"encoding: {near[0] if near else 'latin-1'}"
        ) from None


def is_utf8_name(name: str | None) -> bool:
    """Whether the name stands for UTF-8."""
    return name is not None and codecs.lookup(name).name in ("utf-8", "utf-8-sig")


def is_utf8(file: Path, packing: str | None) -> bool:
    """Whether a file is UTF-8 to its last byte."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with opened(file, packing) as stream:
        try:
            while piece := stream.read(_PIECE):
                decoder.decode(piece)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


class Utf8:
    """The documents of one file as UTF-8. forgive: any number of bytes that are not is noise; recodes: `encoding` is heeded for this kind.

    Call it with each; then `end` raises DataError when too many were not UTF-8.
    """

    def __init__(self, file: Path, counts: Counter[str], forgive: bool = False, recodes: bool = True):
        self.file, self.counts, self.forgive, self.recodes = file, counts, forgive, recodes
        self.seen = self.wrong = 0
        self.first: tuple[str, int] | None = None

    def __call__(self, raw: bytes, where: Callable[[int], str]) -> bytes:
        """where: what the place of a byte in `raw` is called, as line 7."""
        self.seen += len(raw)
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            fixed = utf8(raw, self.counts)
            self.wrong += fixed.count(b"\xef\xbf\xbd") - raw.count(b"\xef\xbf\xbd")
            if self.first is None:
                self.first = where(error.start), raw[error.start]
            return fixed
        return raw

    def end(self) -> None:
        """Raises DataError, naming the first, when more bytes were not UTF-8 than noise has."""
        if self.forgive or self.first is None or self.wrong < MANY or self.wrong <= SHARE * self.seen:
            return
        place, byte = self.first
        raise DataError(
            f"{self.file}, {place}: byte {byte:#04x} is not UTF-8, and {self.wrong - 1:,} more of its {self.seen:,} bytes are not",
            f"text is UTF-8; fewer than {MANY} such bytes in a file, or than one in {round(1 / SHARE):,}, would be noise and become U+FFFD",
            "say what it is, for example encoding: latin-1 (files that are UTF-8 are still read as such), or encoding: utf-8 for noise"
            if self.recodes
            else "write the file again in UTF-8 (`encoding` is of text and JSONL files), or say that it is noise: encoding: utf-8",
        )
