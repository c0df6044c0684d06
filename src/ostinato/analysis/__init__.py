"""Pure functions of stored arrays: sums and rates, paired differences with their intervals, seeds, accounts of a gain. No torch."""

from ostinato.analysis.against import compare_tables
from ostinato.analysis.arms import ArmResult, RunResult
from ostinato.analysis.classes import ArmClasses, ClassGain, class_gains, gains_by_class
from ostinato.analysis.curves import Crossing, GainPoint, Line, crossing, crossing_of, gain_curve, mean_line
from ostinato.analysis.documents import Documents, Grouping, documents_over_seeds, grouping, paired_documents, shared
from ostinato.analysis.intervals import Interval, over_clusters, over_values
from ostinato.analysis.members import TokenClass, named_classes
from ostinato.analysis.minimal_pairs import PairedPairs, PairScores, compare_pairs, pair_scores
from ostinato.analysis.paired import Paired, compare, paired, same_targets
from ostinato.analysis.results import results_table
from ostinato.analysis.seeds import OverSeeds, over_seeds, paired_over_seeds
from ostinato.analysis.sums import Sums, mean_nats, summary, total
from ostinato.analysis.words import BITS, NATS, NOT_ESTIMABLE, gain_in_words, range_in_words, signed

__all__ = [
    "BITS", "NATS", "NOT_ESTIMABLE", "ArmClasses", "ArmResult", "ClassGain", "Crossing", "Documents", "GainPoint", "Grouping", "Interval",
    "Line", "OverSeeds", "PairScores", "Paired", "PairedPairs", "RunResult", "Sums", "TokenClass", "class_gains", "compare",
    "compare_pairs", "compare_tables", "crossing", "crossing_of", "documents_over_seeds", "gain_curve", "gain_in_words", "gains_by_class",
    "grouping", "mean_line", "mean_nats", "named_classes", "over_clusters", "over_seeds", "over_values", "pair_scores", "paired",
    "paired_documents", "paired_over_seeds", "range_in_words", "results_table", "same_targets", "shared", "signed", "summary", "total",
]  # fmt: skip
