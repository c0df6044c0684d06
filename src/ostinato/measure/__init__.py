"""Running a model over data and writing arrays: a loss per target, and whether stored losses are reproduced."""

from ostinato.measure.losses import measure_losses

__all__ = ["measure_losses"]
