"""ostinato: controlled experiments on language models that apply their layers more than once."""

__version__ = "0.1.0"
