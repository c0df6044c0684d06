"""A run as a Hugging Face folder: its weights, one self-contained modeling file, its tokenizer and a card that says what it is."""

from ostinato.export.folder import export_run

__all__ = ["export_run"]
