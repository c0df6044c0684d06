"""Which token of a tokenizer.json begins a document (BOS), and whether one has to be added: one rule for planning and for preparing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

BOS = "<|bos|>"
NAMES = (BOS, "<s>", "<bos>", "[BOS]", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>")


def find_bos(source: dict[str, Any], declared: str | None = None) -> tuple[str, str]:
    """The content of the BOS of a parsed tokenizer.json, and in words why it is that one. It may not be in the vocabulary yet.

    declared: the one that the folder of the tokenizer names, if it names one.
    """
    if declared is not None:
        return declared, f"{declared}, which the tokenizer's folder names; put there once by us"
    for processor in walk(source.get("post_processor")):
        first = (processor.get("single") or [{}])[0] if processor.get("type") == "TemplateProcessing" else {}
        if "SpecialToken" in first:
            token = processor["special_tokens"][first["SpecialToken"]["id"]]["tokens"][0]
            return token, f"{token}, which the tokenizer itself puts first; put there once by us, not by its template"
    known = {token["content"] for token in source.get("added_tokens") or []} | set(entries(source))
    for name in NAMES:
        if name in known:
            return name, f"{name}, found in the vocabulary"
    return BOS, f"{BOS}, added to the vocabulary, which had none of {', '.join(NAMES)}"


def has_bos(source: dict[str, Any], declared: str | None = None) -> bool:
    """Whether the vocabulary has its BOS, so that none has to be added."""
    return find_bos(source, declared)[0] in {*entries(source), *(token["content"] for token in source.get("added_tokens") or [])}


def size(source: dict[str, Any], declared: str | None = None) -> int:
    """One more than the largest id, a BOS that has to be added included."""
    ids = {**entries(source), **{token["content"]: token["id"] for token in source.get("added_tokens") or []}}
    return 1 + max(ids.values(), default=-1) + (find_bos(source, declared)[0] not in ids)


def entries(source: dict[str, Any]) -> dict[str, int]:
    """The model's vocabulary, token to id, without added tokens."""
    vocab = source["model"]["vocab"]
    return dict(vocab) if isinstance(vocab, dict) else {entry[0]: i for i, entry in enumerate(vocab)}


def walk(part: Any) -> Iterator[dict[str, Any]]:
    """A component of a tokenizer.json and the members of its sequences."""
    if isinstance(part, dict):
        yield part
        for key in ("normalizers", "pretokenizers", "processors", "decoders"):
            for member in part.get(key) or []:
                yield from walk(member)
