"""The language of predictions: text to a small tree, and back."""

from ostinato.claims.classes import TokenClass, named_class, named_classes
from ostinato.claims.language import KINDS, parse_condition, parse_expression, read_condition, read_expression
from ostinato.claims.measures import MEASURES, Spec
from ostinato.claims.reading import Mention, Reading
from ostinato.claims.terms import (
    All,
    Any,
    Binary,
    Comparison,
    Condition,
    Expression,
    Function,
    Measure,
    Negative,
    Not,
    Number,
    Outcome,
    measures,
    outcomes,
)
from ostinato.claims.ways import direction, unit

__all__ = ["KINDS", "MEASURES", "All", "Any", "Binary", "Comparison", "Condition", "Expression", "Function", "Measure", "Mention",
           "Negative", "Not", "Number", "Outcome", "Reading", "Spec", "TokenClass", "direction", "measures", "named_class", "named_classes",
           "outcomes", "parse_condition", "parse_expression", "read_condition", "read_expression", "unit"]  # fmt: skip
