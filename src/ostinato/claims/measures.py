"""The measures that a prediction may name: their options, which way is better, in what unit, and what each is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

NATS, BITS = "nats", "bits"
Kind = Literal["class", "arm", "word", "name", "count"]


@dataclass(frozen=True)
class Option:
    """kind: what its value is.  words: those it may be (kind word), the default first.  least: of a count.  required: it has no default."""

    kind: Kind
    about: str
    words: tuple[str, ...] = ()
    least: int = 0
    required: bool = False


@dataclass(frozen=True)
class Spec:
    """better: 1 where higher is better, -1 where lower is, 0 where neither.  unit: in words, or one for each word of the option unit.

    alone: options of which at most one is given.
    """

    options: Mapping[str, Option]
    better: int
    unit: str | Mapping[str, str]
    about: str
    alone: tuple[str, ...] = ()


_CLASS = Option("class", "targets of this token class alone: new, tok_repeat, k>=2, count<10")
_OVER = Option("arm", "compared with this arm; default: the one it is `against`, else the reference")
_UNIT = Option("word", "nats a token or bits a byte", (NATS, BITS))
_PART = Option("word", "of the text; the held-out part is known to `ostinato judge` alone", ("validation", "held_out"))
_SEED = Option("count", "of this seed alone; default: all")
_TOKENS = Option("count", "after so many tokens of training; default: at the end", least=1)
_OF_LOSSES = {"class": _CLASS, "part": _PART, "seed": _SEED, "tokens": _TOKENS}
_UNITS = {NATS: "nats a token", BITS: "bits a byte"}

MEASURES: Mapping[str, Spec] = {
    "gain": Spec({**_OF_LOSSES, "over": _OVER, "unit": _UNIT}, 1, _UNITS,
                 "loss of the arm that it is compared with, minus its own, on the same targets"),
    "loss": Spec({**_OF_LOSSES, "unit": _UNIT}, -1, _UNITS, "mean loss"),
    "ppl": Spec(_OF_LOSSES, -1, "perplexity", "perplexity: exp of the mean loss in nats a token"),
    "pairs": Spec({"field": Option("name", "of this field alone"), "term": Option("name", "of this linguistic term alone"),
                   "paradigm": Option("name", "of this paradigm alone"),
                   "convention": Option("word", "whether the first token of a sentence is scored", ("bos", "skip_first"))},
                  1, "share of pairs", "minimal pairs that it gets right, macro mean over paradigms, 0 to 1",
                  ("field", "term", "paradigm")),
    "won": Spec({"over": _OVER, "seed": _SEED}, 1, "share of windows",
                "share of windows in which its loss is lower, 0 to 1, averaged over seeds"),
    "lens": Spec({"application": Option("count", "after this application, the first one 0", required=True), "class": _CLASS}, -1,
                 _UNITS[NATS], "loss if the head read the stream after an application"),
    "depth": Spec({"passes": Option("count", "so many, whatever it was trained with", least=1, required=True), "class": _CLASS}, -1,
                  _UNITS[NATS], "loss with another number of passes at test time"),
    "params": Spec({}, -1, "parameters", "unique parameters, all of them"),
    "flops": Spec({}, -1, "FLOPs", "FLOPs of its whole training"),
    "flops_per_token": Spec({}, -1, "FLOPs a token", "FLOPs of training on one token"),
    "seconds": Spec({}, -1, "seconds", "seconds of its training"),
    "peak_bytes": Spec({}, -1, "bytes", "most memory that its training took"),
    "tokens": Spec({}, -1, "tokens", "tokens that it is trained on"),
    "crossing": Spec({"over": _OVER}, 0, "tokens", "tokens after which its gain has changed sign for good"),
    "first_pass_ends": Spec({}, 0, "tokens", "tokens at which the first pass over its text ends"),
}  # fmt: skip

OTHER_NAMES = {"bpb": "loss(ARM, unit=bits)", "nats": "loss(ARM)", "nll": "loss(ARM)", "delta": "gain(ARM)", "improvement": "gain(ARM)",
               "perplexity": "ppl(ARM)", "accuracy": "pairs(ARM)", "blimp": "pairs(ARM)", "time": "seconds(ARM)",
               "memory": "peak_bytes(ARM)", "parameters": "params(ARM)", "wins": "won(ARM)", "crossover": "crossing(ARM)",
               "share": "gain(ARM) / gain(OTHER)",
               "log": "loss(ARM), which is in nats", "exp": "ppl(ARM), which is exp of nats a token"}  # fmt: skip
"""What others call it, and how it is written here."""


def unit_of(measure: str, option: str | None) -> str:
    """The unit of a measure in words.  option: the value of its `unit`, None where it is not given."""
    unit = MEASURES[measure].unit
    return unit if isinstance(unit, str) else unit[option or NATS]
