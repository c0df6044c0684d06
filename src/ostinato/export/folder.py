"""A run as a folder that Hugging Face's `from_pretrained` loads, and so lm-evaluation-harness and the BabyLM pipelines.

    config.json  generation_config.json     what the model is (config.py)
    modeling_ostinato.py                    the model in plain torch (source.py)
    model.safetensors                       every tensor once: a tied or re-applied one has one name
    tokenizer.json …                        the run's tokenizer, which puts BOS first (tokenizer.py)
    README.md                               the model card (card.py)

Writing it needs no transformers. The folder appears whole or not at all, and never over another.
"""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from ostinato.errors import StoreError
from ostinato.export.card import model_card
from ostinato.export.config import MODULE, model_config
from ostinato.export.source import modeling_source
from ostinato.export.tokenizer import tokenizer_files
from ostinato.files import as_json, new_folder, write_atomic
from ostinato.measure.load import load_run
from ostinato.model import Decoder
from ostinato.model.save import weights
from ostinato.store import RunFolder, Store


def export_run(folder: RunFolder, out: Path | str, tokens: int | None = None, store: Store | None = None,
               cache: Path | None = None) -> Path:  # fmt: skip
    """Write the decoder after `tokens` of training (default: the newest checkpoint) as the folder `out`, and return its path.

    store: what the card says of targets is looked up there (default: that of the run).  cache: of prepared text.
    Raises StoreError when `out` is there already and not an empty folder, or there is no such checkpoint, or the text has changed.
    """
    out = Path(out)
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise StoreError(f"{out} exists already", "an export is written to a new or empty folder", "choose another name, or move it away")
    decoder, prepared = load_run(folder, tokens, cache)
    tokens = max(folder.checkpoints()) if tokens is None else tokens
    texts = {
        "config.json": as_json(model_config(decoder)),
        "generation_config.json": as_json({f"{name}_token_id": decoder.bos for name in ("bos", "eos")}),
        f"{MODULE}.py": modeling_source(),
        "README.md": model_card(folder, tokens, prepared.vocab, store or Store(folder.path.parents[1]), out.name),
        **{name: as_json(content) for name, content in tokenizer_files(prepared.vocabulary, decoder.context).items()},
    }
    with new_folder(out) as scratch:
        for name, text in texts.items():
            write_atomic(scratch / name, text, flush=False)
        write_atomic(scratch / "model.safetensors", save(tensors(decoder), {"format": "pt"}), flush=False)
    return out


def tensors(decoder: Decoder) -> dict[str, Tensor]:
    """Every parameter once, by its name in the exported model."""
    return {"lm_head.weight" if name == "head.weight" else f"model.{name}": part.contiguous() for name, part in weights(decoder).items()}
