"""A tokenizer as it lies on disk: a tokenizer.json, or a Hugging Face folder with one and with the name of its BOS beside it.

A folder without tokenizer.json may have vocab.json and merges.txt, as GPT-2 and its like were published: a byte-level BPE with GPT-2's
split of words. Other classes of tokenizer split differently, so they are not guessed at; a SentencePiece model has to be converted first.
The BOS is the `bos_token` of tokenizer_config.json or of special_tokens_map.json, or the token with config.json's `bos_token_id`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ostinato.errors import StudyError

_LIKE_GPT2 = ("GPT2Tokenizer", "RobertaTokenizer", "BartTokenizer", "LongformerTokenizer", "LEDTokenizer", None)
_SENTENCEPIECE = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model")


def read_tokenizer(path: Path) -> tuple[Any, str | None]:
    """The content of a tokenizer.json, and the BOS that its folder names, if `path` is one.

    Raises OSError, ValueError for a file that is not JSON, and StudyError for a folder without a tokenizer that can be read.
    """
    if not path.is_dir():
        return json.loads(path.read_text(encoding="utf-8")), None
    config = _json(path / "tokenizer_config.json")
    if (path / "tokenizer.json").exists():
        content = json.loads((path / "tokenizer.json").read_text(encoding="utf-8"))
    elif (path / "vocab.json").exists() and (path / "merges.txt").exists():
        content = _byte_level(path, config)
    else:
        raise _none(path)
    return content, _bos(path, config, content)


def _json(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is no such file."""
    if not path.exists():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise StudyError(f"{path} holds a {type(content).__name__}", "it is a JSON object", "fetch or write the file again")
    return content


def _bos(path: Path, config: dict[str, Any], content: Any) -> str | None:
    for given in (config, _json(path / "special_tokens_map.json")):
        if token := _spelling(given, "bos_token"):
            return str(token)
    number = _json(path / "config.json").get("bos_token_id")
    if not isinstance(number, int) or not isinstance(content, dict):
        return None
    for token in content.get("added_tokens") or []:
        if token.get("id") == number:
            return str(token["content"])
    vocab = (content.get("model") or {}).get("vocab")
    if isinstance(vocab, dict):
        return next((token for token, index in vocab.items() if index == number), None)
    return None


def _spelling(given: dict[str, Any], name: str) -> Any:
    """A special token, which is given as text, or as an object with it."""
    token = given.get(name)
    return token.get("content") if isinstance(token, dict) else token


def _byte_level(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    """What tokenizer.json would say of vocab.json and merges.txt."""
    kind = config.get("tokenizer_class")
    if kind not in _LIKE_GPT2 and str(kind).removesuffix("Fast") not in _LIKE_GPT2:
        raise StudyError(
            f"{path} has vocab.json and merges.txt of a {kind}, and no tokenizer.json",
            "vocab.json and merges.txt alone are read as GPT-2's, whose split of words others do not share",
            _convert(path),
        )
    vocab = _json(path / "vocab.json")
    lines = (path / "merges.txt").read_text(encoding="utf-8").split("\n")
    merges = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    wrong = next((merge for merge in merges if len(merge) != 2), None)
    if wrong is not None:
        raise StudyError(f"{path / 'merges.txt'} has the line {' '.join(wrong)[:60]!r}", "a line is two tokens", "fetch the file again")
    prefix = bool(config.get("add_prefix_space", False))
    level = {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": _added(path, config, vocab), "normalizer": None,
        "pre_tokenizer": level, "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": merges},
    }  # fmt: skip


def _added(path: Path, config: dict[str, Any], vocab: dict[str, int]) -> list[dict[str, Any]]:
    """The tokens beside the merges: those that the folder lists, and its special ones."""
    found: dict[int, tuple[str, bool]] = {int(index): (token, True) for token, index in _json(path / "added_tokens.json").items()}
    for index, token in (config.get("added_tokens_decoder") or {}).items():
        found[int(index)] = (token["content"], bool(token.get("special", True)))
    for given in (config, _json(path / "special_tokens_map.json")):
        for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
            token = _spelling(given, name)
            if token in vocab:
                found.setdefault(vocab[token], (token, True))
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return [{"id": index, "content": token, "special": special, **plain} for index, (token, special) in sorted(found.items())]


def _none(path: Path) -> StudyError:
    rule = "a folder holds tokenizer.json, or vocab.json and merges.txt"
    model = next((name for name in _SENTENCEPIECE if (path / name).exists()), None)
    if model:
        return StudyError(f"{path} has its tokenizer only as {model}, a SentencePiece model", rule, _convert(path))
    seen = sorted(file.name for file in path.iterdir())
    there = f"{', '.join(seen[:8])}{', …' if len(seen) > 8 else ''}" or "nothing"
    return StudyError(f"{path} holds no tokenizer ({there})", rule, "name another folder, or train one: tokenizer: {bpe: 8192}")


def _convert(path: Path) -> str:
    return (
        "write tokenizer.json beside it, with transformers: "
        f"""python -c "from transformers import AutoTokenizer as T; T.from_pretrained('{path}').save_pretrained('{path}')\""""
    )
