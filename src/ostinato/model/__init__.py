"""The decoder that walks a schedule, its parts and their naive twin; initial values, weights on disk, generation."""

from ostinato.model.cache import Cache
from ostinato.model.decoder import Decoder, build
from ostinato.model.generate import generate
from ostinato.model.save import load_weights, save_weights

__all__ = ["Cache", "Decoder", "build", "generate", "load_weights", "save_weights"]
