"""Pure functions of stored arrays: sums and rates, paired differences with their intervals, seeds, accounts of a gain. No torch."""

from ostinato.analysis.curves import GainPoint, crossing, gain_curve
from ostinato.analysis.intervals import Interval, over_clusters, over_values
from ostinato.analysis.paired import Paired, compare, paired, same_targets
from ostinato.analysis.results import ArmResult, RunResult, results_table
from ostinato.analysis.seeds import OverSeeds, over_seeds, paired_over_seeds
from ostinato.analysis.sums import Sums, mean_nats, summary, total
from ostinato.analysis.words import NOT_ESTIMABLE, gain_in_words, range_in_words, signed

__all__ = [
    "NOT_ESTIMABLE", "ArmResult", "GainPoint", "Interval", "OverSeeds", "Paired", "RunResult", "Sums", "compare", "crossing", "gain_curve",
    "gain_in_words", "mean_nats", "over_clusters", "over_seeds", "over_values", "paired", "paired_over_seeds", "range_in_words",
    "results_table", "same_targets", "signed", "summary", "total",
]  # fmt: skip
