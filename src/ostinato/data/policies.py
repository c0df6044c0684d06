"""What is done to text on the way in: every rule in words, and how many documents each one met.

Text is kept to the byte, so that bits per byte are those of the text that was given; the only changes are the ones named
in RULES. The counts go into the manifest. Text that spells a special token, such as "<|bos|>", is plain text.
"""

from __future__ import annotations

import re
from collections import Counter

RULES = {
    "documents": "documents read",
    "empty": "documents that are empty, or white space only, are dropped",
    "missing": "rows whose text is null are dropped",
    "duplicate": "documents that occurred before are kept, in the same part as the first",
    "bom": "a byte order mark at the start of a document is dropped",
    "invalid_utf8": "each byte that is not UTF-8 becomes U+FFFD",
    "lone_surrogate": "each lone surrogate (an escape such as \\ud800 in JSON) becomes U+FFFD",
    "nul": "NUL characters are kept",
    "carriage_return": "carriage returns are kept; line ends are not translated",
    "special_literal": "text that spells a special token is encoded as plain text",
}
BOM = b"\xef\xbb\xbf"
_SURROGATE = re.compile("[\ud800-\udfff]")


def utf8(raw: bytes, counts: Counter[str]) -> bytes:
    """`raw` as valid UTF-8; counts one `invalid_utf8` when a byte had to be replaced."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        counts["invalid_utf8"] += 1
        return _SURROGATE.sub("\ufffd", raw.decode("utf-8", "surrogateescape")).encode()
    return raw


def encoded(text: str, counts: Counter[str]) -> bytes:
    """`text` as UTF-8; counts one `lone_surrogate` when one had to be replaced."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        counts["lone_surrogate"] += 1
        return _SURROGATE.sub("\ufffd", text).encode()


def clean(text: bytes, counts: Counter[str]) -> bytes | None:
    """The document that valid UTF-8 `text` stands for, or None when it is dropped as empty; counts what it met."""
    counts["documents"] += 1
    if text.startswith(BOM):
        counts["bom"] += 1
        text = text[len(BOM) :]
    if not text or text.isspace():
        counts["empty"] += 1
        return None
    counts["nul"] += b"\0" in text
    counts["carriage_return"] += b"\r" in text
    return text
