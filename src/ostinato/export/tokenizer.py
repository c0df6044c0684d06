"""The tokenizer of an export: the run's own tokenizer.json, told to put one BOS before a text, and what transformers reads beside it.

In a run every document begins with BOS, BOS is what a model predicts where a document ends, and text that spells a special token is plain
text. So BOS is the end of a text as well, and padding too, which a mask tells apart; generation_config.json names no padding, from which
`generate` would make a mask of its own that hides the BOS of a prompt. Batches are padded on the left, as generation needs.
"""

from __future__ import annotations

import json
from typing import Any

from ostinato.data.vocabulary import Vocabulary


def tokenizer_files(vocabulary: Vocabulary, context: int) -> dict[str, dict[str, Any]]:
    """The content of every file by its name.  context: tokens of a row in training, to which longer texts are cut when asked for."""
    content = json.loads(vocabulary.json)
    bos = next(token["content"] for token in content["added_tokens"] if token["id"] == vocabulary.bos)
    content["post_processor"] = _template(bos, vocabulary.bos)
    special = {name: bos for name in ("bos_token", "eos_token", "pad_token")}
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast", **special, "model_max_length": context, "padding_side": "left",
        "model_input_names": ["input_ids", "attention_mask"], "clean_up_tokenization_spaces": False, "split_special_tokens": True,
    }  # fmt: skip
    return {"tokenizer.json": content, "tokenizer_config.json": config, "special_tokens_map.json": special}


def _template(bos: str, index: int) -> dict[str, Any]:
    """A post-processor: BOS text, and BOS text BOS text for a pair."""
    begin = {"SpecialToken": {"id": bos, "type_id": 0}}
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    return {
        "type": "TemplateProcessing", "single": [begin, first], "pair": [begin, first, begin, second],
        "special_tokens": {bos: {"id": bos, "ids": [index], "tokens": [bos]}},
    }  # fmt: skip
