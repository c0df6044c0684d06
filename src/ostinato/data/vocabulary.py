"""The tokenizer: a byte-level BPE trained on the training part, or a tokenizer.json; its BOS; the bytes of every token.

Byte-level BPE (Sennrich et al., arXiv 1508.07909; bytes as in GPT-2). Words are split as GPT-4 does, numbers in at most two digits,
and a run of one kind is cut at a fixed length, so that time stays linear in the text whatever the text is.

A token's bytes are read from the token itself, never by decoding it: a token may be part of a character. Special tokens have none.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ostinato.data.policies import encoded
from ostinato.errors import DataError, StudyError
from ostinato.study.bos import BOS, entries, find_bos, size, walk
from ostinato.study.tokenizer_files import read_tokenizer

# contractions; a word with the character before it; two digits; punctuation and the line ends after it; line ends; spaces
SPLIT = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}{1,64}|\p{N}{1,2}| ?[^\s\p{L}\p{N}]{1,16}[\r\n]{0,16}"
    r"|\s{0,64}[\r\n]|\s{1,64}(?!\S)|\s{1,64}"
)
LONG = 1 << 20  # characters of one document encoded at a time by a trained tokenizer
_CUT = re.compile(r"\n(?=\S)")
_FALLBACK = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_alphabet() -> dict[str, int]:
    """The character that stands for each byte in a byte-level vocabulary: printable Latin-1 is itself, the rest follow from U+0100."""
    itself = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in set(itself)]
    return {chr(byte): byte for byte in itself} | {chr(256 + i): byte for i, byte in enumerate(others)}


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer as this project uses it: text to ids without specials, ids to bytes, and one BOS that no text produces.

    `json` is the tokenizer.json in the form used here; `policies` says in words what was decided about BOS and bytes.
    """

    json: str
    bos: int
    trained: bool
    policies: dict[str, str]

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.json.encode()).hexdigest()

    @cached_property
    def engine(self) -> Any:
        """The `tokenizers.Tokenizer`, set so that text which spells a special token is plain text."""
        from tokenizers import Tokenizer

        engine = Tokenizer.from_str(self.json)
        engine.encode_special_tokens = True
        return engine

    @cached_property
    def token_texts(self) -> tuple[bytes, ...]:
        """The bytes of every token [V]; empty for special tokens and for ids without a token."""
        return _token_texts(json.loads(self.json))

    @cached_property
    def token_bytes(self) -> np.ndarray:
        """How many bytes every token stands for: int32 [V], 0 for special tokens."""
        return np.array([len(text) for text in self.token_texts], np.int32)

    @cached_property
    def literals(self) -> tuple[bytes, ...]:
        """How the special tokens are spelt, as text might spell them."""
        return tuple(token["content"].encode() for token in json.loads(self.json)["added_tokens"] if token["special"])

    @property
    def size(self) -> int:
        return len(self.token_texts)

    @cached_property
    def prefix(self) -> int:
        """Bytes that the tokenizer puts before every text and that are not in it (1 for a SentencePiece-like dummy space)."""
        return int(self.token_bytes[self.engine.encode("a", add_special_tokens=False).ids].sum()) - 1

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without BOS. A lone surrogate (a byte of a command line that is not UTF-8) becomes U+FFFD, as in a corpus."""
        return self.encode_all([encoded(text, Counter()).decode()])[0].tolist()

    def literals_in(self, text: bytes) -> list[bytes]:
        """Which of the special tokens' spellings may be in a text: all that begin with two bytes that it has next to each other."""
        present = {start for start in {literal[:2] for literal in self.literals} if start in text}
        return [literal for literal in self.literals if literal[:2] in present and literal in text]

    def encode_all(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each text, without BOS, uint32, on all cores."""
        ids, lengths = self.encode_flat(texts)
        return np.split(ids, np.cumsum(lengths)[:-1]) if texts else []

    def encode_flat(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of all texts one after the other, uint32, without BOS, and the number of them in each, int64; on all cores.

        A long text is cut where the split of words would cut it anyway.
        """
        pieces = [(owner, piece) for owner, text in enumerate(texts) for piece in (_pieces(text) if self.trained else [text])]
        fast = getattr(self.engine, "encode_batch_fast", self.engine.encode_batch)
        ids, lengths = array("I"), np.zeros(len(texts), np.int64)
        for group in _groups(pieces):
            for (owner, _), encoding in zip(group, fast([piece for _, piece in group], add_special_tokens=False), strict=True):
                found = encoding.ids
                ids.fromlist(found)
                lengths[owner] += len(found)
        return np.frombuffer(ids, np.uint32) if ids else np.zeros(0, np.uint32), lengths

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes that ids stand for, one after the other."""
        return b"".join(self.token_texts[int(token)] for token in ids)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids; special tokens vanish, and bytes that are no character (a part of one) become U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", "replace")


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > LONG:
        cut = _CUT.search(text, start + LONG)
        if not cut:
            break
        yield text[start : cut.end()]
        start = cut.end()
    yield text[start:]


def _groups(pieces: list[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Runs of pieces that together are not much longer than LONG times 4: what the library holds for a token is many times its text."""
    group: list[tuple[int, str]] = []
    size = 0
    for piece in pieces:
        group.append(piece)
        size += len(piece[1])
        if size >= 4 * LONG:
            yield group
            group, size = [], 0
    if group:
        yield group


def train(vocab: int, texts: Iterable[str]) -> Vocabulary:
    """A byte-level BPE of exactly `vocab` entries, BOS (id 0) and the 256 bytes among them. Raises DataError when the text is too small."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    engine = Tokenizer(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    engine.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=[BOS], initial_alphabet=sorted(_byte_alphabet()), show_progress=False)
    engine.train_from_iterator(texts, trainer)
    got = engine.get_vocab_size()
    if got != vocab:
        raise DataError(
            f"the training part yields a vocabulary of {got:,} entries, not {vocab:,}",
            "a trained tokenizer has exactly as many entries as the study says",
            f"set tokenizer: {{bpe: {got}}} or smaller, or give more text",
        )
    return trained_before(engine.to_str())


def trained_before(content: str) -> Vocabulary:
    """The vocabulary that `train` made, from its tokenizer.json."""
    policies = {"bos": f"{BOS}, id 0, reserved when the vocabulary was trained; no text produces it", "bytes": "byte-level"}
    return Vocabulary(content, 0, True, policies)


def load(path: Path) -> Vocabulary:
    """An existing tokenizer.json, or a Hugging Face folder with one, with its own BOS or one added to it.

    Raises DataError when its tokens do not stand for bytes.
    """
    try:
        return _loaded(path)
    except (KeyError, TypeError, AttributeError, IndexError, MemoryError) as error:
        raise DataError(
            f"tokenizer {path} cannot be understood ({type(error).__name__}: {error})",
            "a tokenizer.json of the tokenizers library, and beside it what Hugging Face writes",
            "save it again, or train one: tokenizer: {bpe: 8192}",
        ) from None


def _loaded(path: Path) -> Vocabulary:
    where = f"tokenizer {path}"
    try:
        source, declared = read_tokenizer(path)
    except StudyError as error:
        raise DataError(error.what, error.rule, error.fix) from None
    except OSError as error:
        raise DataError(
            f"{where} cannot be read: {error.strerror}",
            "tokenizer: {file: …} names a tokenizer.json, or a folder with one",
            "check the path",
        ) from None
    except ValueError as error:
        raise DataError(
            f"{where} is not JSON ({error})", "tokenizer: {file: …} names a tokenizer.json", "fetch or write the file again"
        ) from None
    if not isinstance(source, dict) or not isinstance(source.get("model"), dict) or "vocab" not in source["model"]:
        raise DataError(
            f"{where} has no vocabulary",
            "a tokenizer.json of the tokenizers library",
            "name that file, not tokenizer_config.json or a model file",
        )
    name, why = find_bos(source, declared)
    source["added_tokens"] = added = list(source.get("added_tokens") or [])
    entry = next((token for token in added if token["content"] == name), None)
    if entry is None:
        entry = {
            "id": entries(source).get(name, size(source, declared) - 1),
            "content": name,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
        }
        added.append(entry)
    entry["special"], entry["normalized"] = True, False
    source["truncation"] = source["padding"] = None  # a tokenizer.json may carry both, and would cut documents silently
    if source["model"].get("dropout") is not None:
        source["model"]["dropout"] = None  # else the same text would be encoded differently each time
    kind = _kind(source)
    if kind is None:
        raise DataError(
            f"{where}: its tokens do not stand for bytes (model {source['model'].get('type')}, neither byte-level nor with byte fallback)",
            "bits per byte need the bytes of every token",
            "use a byte-level BPE, or train one with tokenizer: {bpe: 8192}",
        )
    vocabulary = Vocabulary(json.dumps(source, ensure_ascii=False), int(entry["id"]), False, {"bos": why, "bytes": kind})
    if not entries(source):
        raise DataError(f"{where} has an empty vocabulary", "a text becomes tokens", "name another, or train one: tokenizer: {bpe: 8192}")
    try:
        _ = vocabulary.engine, vocabulary.size
    except Exception as error:  # the library raises bare Exception
        raise DataError(
            f"{where} cannot be loaded ({error})", "a tokenizer.json of the tokenizers library", "fetch or write the file again"
        ) from None
    return vocabulary


def _kind(source: dict[str, Any]) -> str | None:
    parts = [part.get("type") for name in ("pre_tokenizer", "decoder", "normalizer") for part in walk(source.get(name))]
    if "ByteLevel" in parts:
        return "byte-level"
    return "byte fallback" if source["model"].get("byte_fallback") else None


def _token_texts(source: dict[str, Any]) -> tuple[bytes, ...]:
    texts = [b""] * size(source)
    alphabet = _byte_alphabet() if _kind(source) == "byte-level" else None
    for token, index in entries(source).items():
        if alphabet is not None:
            texts[index] = bytes(alphabet[c] for c in token) if all(c in alphabet for c in token) else token.encode()
        elif match := _FALLBACK.fullmatch(token):
            texts[index] = bytes([int(match[1], 16)])
        else:
            texts[index] = token.replace("\u2581", " ").encode()
    for token in source.get("added_tokens", []):
        texts[token["id"]] = b"" if token.get("special") else token["content"].encode()
    return tuple(texts)


os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")  # else the library warns, and stops using threads, after a fork
