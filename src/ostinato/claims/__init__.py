"""The language of predictions, in a study file (`predictions`, `quantities`, `run_if`) and in a replay of published results.

An expression is a number:

    0.5, 1e-3, 43%, 100k                numbers; 43% is 0.43
    + - * / ( ) abs(x) min(x, y, …) max(x, y, …)
    MEASURE(ARM, OPTION=VALUE, …)       a measured number of an arm; MEASURES has their options, units and what each is

    gain(loop2)                         reference loss minus its own, nats a token; over=ARM for another reference, unit=bits a byte
    loss(loop2, part=held_out)          known to `ostinato judge` alone; class=, seed=, tokens= as in gain; ppl(…): exp of it
    pairs(loop2, field=syntax)          share of minimal pairs; term=, paradigm=; convention=skip_first
    won(loop2), lens(loop2, application=7), depth(loop2, passes=3), crossing(loop2), first_pass_ends(loop2)
    params, flops, flops_per_token, seconds, peak_bytes, tokens

    class=new, class=tok_repeat         a token class by name (`claims.classes`); a hyphen and an underscore are the same
    class=k>=2, class=count<10          or as a range

Names stand bare up to the next comma or parenthesis, spaces within them included: gain(GDN 2:1, class=k in view >= 2). In quotes, "…" or
'…' with the mark doubled within, they may hold anything.

A condition holds or does not:

    gain(a) >= 0.6 * gain(b)            < <= > >=; chains run one way: gain(a) > gain(b) > 0, 0.01 <= gain(a) <= 0.02
    gain(a) within 0.003 of gain(b)     the same as -0.003 <= gain(a) - gain(b) <= 0.003
    loss(a) not worse than loss(b) by more than 0.003       also worse, better, not better; which way is better, the measures say
    C and D, C or D, not C              not binds closest, then and, then or
    outcome(E3) is KILL                 another prediction came out so: SUPPORTED, KILLED, BETWEEN, NOT ESTIMABLE, or its own word;
                                        outcome(E3) is not KILL

What is added or compared is in one unit. Whether arms, seeds, applications and predictions are there, the study that holds the text says
(`study.predictions`). Text becomes a small tree (`terms`), whose `str` is the canonical text; a text that does not read raises ClaimError
with the column, what stood there, and the nearest right name.
"""

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
