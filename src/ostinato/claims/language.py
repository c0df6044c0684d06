"""Read a prediction's text: `gain(loop2_attn, class=bigram_repeat) / gain(loop2, class=bigram_repeat) >= 0.6`.

    condition  =  part {"or" part};  part = clause {"and" clause};  clause = "not" clause | outcome | comparison | "(" condition ")"
    outcome    =  "outcome(" name ") is" ["not"] name
    comparison =  sum {("<" | "<=" | ">" | ">=") sum}                        a chain runs one way: a > b > c, 0.01 <= x <= 0.02
               |  sum "within" sum "of" sum                                  no further from it than that
               |  sum ["not"] ("worse" | "better") "than" sum "by more than" sum
    sum        =  product {("+" | "-") product};  product = sign {("*" | "/") sign};  sign = ["-"] atom
    atom       =  number | measure | ("abs" | "min" | "max") "(" sum {"," sum} ")" | "(" sum ")"
    measure    =  name "(" arm {"," option "=" value} ")"                    names and values bare, or in quotes

One pass from left to right, without backtracking; a parenthesis may open a condition or a sum, and every operator looks at what it is
given. Never Python's eval. Length, depth and the number of terms are bounded, so no text takes long or exhausts the stack.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from ostinato.claims import terms as t
from ostinato.claims.measures import MEASURES, OTHER_NAMES
from ostinato.claims.numbers import real_or_percent
from ostinato.claims.options import measure
from ostinato.claims.reading import Mention, Reading
from ostinato.claims.scanner import WORD, Scanner
from ostinato.claims.ways import direction, unit
from ostinato.errors import ClaimError

LONGEST, MOST_TERMS = 4_000, 100
KINDS = ("SUPPORTED", "KILLED", "BETWEEN", "NOT ESTIMABLE")
FUNCTIONS = {"abs": (1, 1), "min": (2, MOST_TERMS), "max": (2, MOST_TERMS)}
"""How many expressions each takes, from and to."""
_NUMBER = re.compile(r"(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?(?:(?:Ki|Mi|Gi|[kKMGBT])(?!\w)|%)?", re.ASCII)
_NAME = re.compile(r"[\w.-]+")
_COMPARE = re.compile(r"<=|>=|<|>|≤|≥")
_EQUAL = re.compile(r"==|!=|≠|=")
_OPERATOR = {"≤": "<=", "≥": ">="}
_EXAMPLE = "write gain(ARM) >= 0.01, for example"


def read_condition(text: str) -> Reading:
    """A condition with the places of its names. Raises ClaimError with the column and the rule."""
    return _Reader(text).whole(True)


def read_expression(text: str) -> Reading:
    """Likewise an expression."""
    return _Reader(text).whole(False)


def parse_condition(text: str) -> t.Condition:
    """The condition that a text stands for. Raises ClaimError with the column and the rule."""
    return read_condition(text).node


def parse_expression(text: str) -> t.Expression:
    """The expression that a text stands for. Raises ClaimError with the column and the rule."""
    return read_expression(text).node


def _is_condition(node: t.Node) -> bool:
    return isinstance(node, t.Condition)


@dataclass
class _Reader(Scanner):
    """Reads one text.  mentions: what it has named so far.  percent: where the last number ended, if it was a percentage."""

    terms: int = 0
    percent: int = -1
    mentions: list[Mention] = field(default_factory=list)

    def whole(self, condition: bool) -> Reading:
        wanted, example = ("a condition", _EXAMPLE) if condition else ("an expression", "write gain(ARM), for example")
        if len(self.text) > LONGEST:
            raise self.error(f"a text of {len(self.text):,} characters", f"{wanted} has at most {LONGEST:,}",
                             "split it into several predictions", LONGEST)  # fmt: skip
        self.space()
        if self.end():
            raise self.error("nothing here", f"{wanted} {'compares measured numbers' if condition else 'has a number in it'}", example, 0)
        start = self.at
        node = self._or()
        if not self.end():
            raise self._stray(node)
        if _is_condition(node) != condition:
            has = "a condition" if _is_condition(node) else "a number"
            raise self.error(f"{has} where {wanted} belongs",
                             "a condition compares: it holds or does not" if condition else "an expression is a number, not a comparison",
                             f"write {t.quoted(str(node)[:40], re.compile('.*'))} >= 0.01" if condition else example, start)  # fmt: skip
        return Reading(self.text, node, tuple(self.mentions))

    def _stray(self, node: t.Node) -> ClaimError:
        """What stands after a whole condition or expression."""
        if self.text[self.at] == ")":
            return self.error("this parenthesis closes nothing", "every ) has its (", "take it out, or add the ( it belongs to")
        if _EQUAL.match(self.text, self.at):
            return self.error(f"{_EQUAL.match(self.text, self.at)[0]!r} between numbers", "measured numbers are never exactly equal",
                              f"write {str(node)[:40]} within 0.003 of …")  # fmt: skip
        if self.text[self.at] == ",":
            return self.error("a comma here", "a condition is one text; parts are combined by `and` and `or`", "write and, or or")
        what = f"{self.here()} after {str(node)[-40:]}"
        near = difflib.get_close_matches(self.peek_word().lower(), ("and", "or", "within", "not worse than", "is"), 1, 0.6)
        if self.text[self.at] in "&|^":
            near = ["and" if self.text[self.at] == "&" else "or"] if self.text[self.at] in "&|" else ["* for a product"]
        return self.error(what, "operators are + - * /, < <= > >=, and, or, within … of, not worse than … by more than",
                          near[0] if near else "put an operator between the two, or take it out")  # fmt: skip

    # --- conditions

    def _or(self) -> t.Node:
        return self._joined("or", lambda: self._joined("and", self._clause, t.All), t.Any)

    def _joined(self, word: str, part: Callable[[], t.Node], kind: type[t.All] | type[t.Any]) -> t.Node:
        start = self.at
        parts = [part()]
        while True:
            here = self.at
            if not self.take_word(word):
                break
            if len(parts) == 1:
                self._condition(parts[0], word, start, here)
            start = self.at
            parts.append(part())
            self._condition(parts[-1], word, start, start)
        return parts[0] if len(parts) == 1 else _flat(kind, parts)

    def _condition(self, node: t.Node, word: str, start: int, at: int) -> None:
        if not _is_condition(node):
            raise self.error(f"{word!r} with a number: {str(node)[:40]}", f"{word!r} combines conditions",
                             f"compare it: {str(node)[:40]} >= 0.01", start)  # fmt: skip

    def _clause(self) -> t.Node:
        start = self.at
        if self.take_word("not"):
            with self.deeper():
                inner = self._clause()
            self._condition(inner, "not", start, start)
            return t.Not(inner)
        return self._comparison()

    def _comparison(self) -> t.Node:
        start = self.at
        left = self._sum()
        here = self.at
        if not (match := _COMPARE.match(self.text, self.at)):
            return self._in_words(left, start)
        self._number(left, start, match[0])
        parts: list[t.Node] = []
        way = match[0]
        while match := _COMPARE.match(self.text, self.at):
            here = self.at
            if (match[0] in "<=≤") != (way in "<=≤"):
                raise self.error(f"{match[0]!r} after {way!r}", "a chain of comparisons runs one way, as a > b >= c",
                                 "write two comparisons with `and` between", here)  # fmt: skip
            self.at = match.end()
            self.space()
            after = self.at
            right = self._sum()
            self._number(right, after, match[0])
            self._same_unit(left, right, here, match[0])
            parts.append(t.Comparison(left, _OPERATOR.get(match[0], match[0]), right))
            left = right
        return parts[0] if len(parts) == 1 else t.All(tuple(parts))

    def _in_words(self, left: t.Node, start: int) -> t.Node:
        """`within … of`, `not worse than … by more than`; else what stands there alone."""
        here = self.at
        if self.take_word("within"):
            self._number(left, start, "within")
            margin = self._margin("within", "write X within 0.05 * Y of Y")
            self.must("of", after="within and a number", example="write X within 0.003 of Y")
            right = self._operand("of")
            self._same_unit(left, right, here, "within")
            apart = self._added("-", left, right, here)
            return t.All((t.Comparison(apart, ">=", t.Negative(margin)), t.Comparison(apart, "<=", margin)))
        negated = self.take_word("not")
        if way := self.take_word("worse", "better"):
            said = f"{'not ' if negated else ''}{way}"
            self._number(left, start, said)
            self.must("than", after=said, example=f"write X {said} than Y by more than 0.003")
            right = self._operand("than")
            self.must("by", "more", "than", after=f"{said} than Y", example=f"write X {said} than Y by more than 0.003")
            margin = self._margin("by more than", f"write X {said} than Y by more than 0.05 * Y")
            self._same_unit(left, right, here, said)
            better = self._better(left, right, here, said)
            apart, floor = self._added("-", left, right, here), (way == "worse") == (better > 0)
            # worse, where higher is better: X - Y < -margin; where lower is: X - Y > margin; better the other way round
            bound, op = (t.Negative(margin), "<") if floor else (margin, ">")
            op = {"<": ">=", ">": "<="}[op] if negated else op
            return t.Comparison(apart, op, bound)
        if negated:
            raise self.error(f"{self.here()} after 'not'", "`not` stands before a condition, or in `not worse than`",
                             "write X not worse than Y by more than 0.003")  # fmt: skip
        return left

    def _better(self, left: t.Node, right: t.Node, at: int, said: str) -> int:
        ways = {way for way in (direction(left), direction(right)) if way is not None}
        if len(ways) != 1 or ways == {0}:
            raise self.error(f"{said} than: of these numbers neither more nor less is known to be better",
                             "it follows from the measures: more of gain, pairs and won, less of losses and costs; a ratio has none",
                             "say it with < or >", at)  # fmt: skip
        return ways.pop()

    def _margin(self, word: str, relative: str) -> t.Expression:
        start = self.at
        margin = self._operand(word)
        if isinstance(margin, t.Negative):
            raise self.error(f"{word!r} a number below 0", "it is how far from each other two numbers may be", "leave out the minus", start)
        if isinstance(margin, t.Number) and self.percent > start:
            raise self.error("a percentage of what?", f"after {word!r} stands a number in the unit of what is compared", relative, start)
        return margin

    def _operand(self, word: str) -> t.Expression:
        start = self.at
        node = self._sum()
        self._number(node, start, word)
        return node

    # --- expressions

    def _number(self, node: t.Node, start: int, word: str) -> None:
        if _is_condition(node):
            raise self.error(f"{word!r} with a condition: {str(node)[:40]}", f"{word!r} takes numbers on both sides",
                             "combine conditions by `and` and `or`", start)  # fmt: skip

    def _same_unit(self, left: t.Expression, right: t.Expression, at: int, word: str) -> None:
        units = unit(left), unit(right)
        if None not in units and units[0] != units[1]:
            raise self.error(f"{units[0]} {word} {units[1]}", "what is added or compared is in one unit",
                             "give both the same unit=, or compare each with a number", at)  # fmt: skip

    def _added(self, op: str, left: t.Expression, right: t.Expression, at: int) -> t.Expression:
        self._same_unit(left, right, at, op)
        return t.Binary(op, left, right)

    def _sum(self) -> t.Node:
        return self._left_to_right("+-−", self._product)

    def _product(self) -> t.Node:
        return self._left_to_right("*/", self._signed)

    def _left_to_right(self, marks: str, part: Callable[[], t.Node]) -> t.Node:
        start = self.at
        left = part()
        while not self.end() and self.text[self.at] in marks:
            here, op = self.at, self.text[self.at].replace("−", "-")
            self._number(left, start, op)
            self.at += 1
            self.space()
            after = self.at
            right = part()
            self._number(right, after, op)
            left = self._added(op, left, right, here) if op in "+-" else t.Binary(op, left, right)
        return left

    def _signed(self) -> t.Node:
        start = self.at
        if self.take("-") or self.take("−"):
            with self.deeper():
                inner = self._signed()
            self._number(inner, start, "-")
            return t.Negative(inner)
        return self._atom()

    def _atom(self) -> t.Node:
        self.terms += 1
        if self.terms > MOST_TERMS:
            raise self.error(f"more than {MOST_TERMS} terms", f"a text has at most {MOST_TERMS} numbers and measures",
                             "split it into several predictions")  # fmt: skip
        start = self.at
        if self.take("("):
            with self.deeper():
                inner = self._or()
            self.close(start)
            return inner
        if text := self.match(_NUMBER):
            return self._given(text, start)
        if word := self.match(WORD):
            self.space()
            return self._named(word, start)
        rule = "a number, a measure of an arm or a parenthesis belongs here"
        if not self.end() and self.text[self.at] in "\"'":
            raise self.error("a quoted name where a number belongs", rule, "write gain(\"that arm\")")
        raise self.error(f"{self.here()} where a number belongs", rule, _EXAMPLE)

    def _given(self, text: str, start: int) -> t.Number:
        if match := WORD.match(self.text, self.at):
            raise self.error(f"{text}{match[0][:20]} is not a number", "numbers are written 0.5, 1e-3, 43% and 100k",
                             f"write {text}, or gain({text}{match[0][:20]}) for an arm of that name", start)  # fmt: skip
        try:
            value = real_or_percent(text)
        except ValueError as error:
            raise self.error(str(error), "numbers are written 0.5, 1e-3, 43% and 100k", "correct the number", start) from None
        self.space()
        if text.endswith("%"):
            self.percent = self.at
        return t.Number(value)

    def _named(self, word: str, start: int) -> t.Node:
        opened = self.at < len(self.text) and self.text[self.at] == "("
        if word == "outcome" and opened:
            return self._outcome(start)
        if not opened or (word not in MEASURES and word not in FUNCTIONS):
            raise self._unknown(word, opened, start)
        paren = self.at
        self.take("(")
        if word in FUNCTIONS:
            return self._function(word, start, paren)
        node, at = measure(word, self.arguments(paren), self.error, start)
        self.mentions.append(Mention(node, at))
        return node

    def _unknown(self, word: str, opened: bool, start: int) -> ClaimError:
        known = (*MEASURES, *FUNCTIONS, "outcome")
        rule = f"measures are {', '.join(MEASURES)}"
        if word in known:
            fix = f"write {word}(ARM)" if word in MEASURES else f"write {word}(gain(A), gain(B))" if word != "outcome" else (
                "write outcome(NAME) is KILLED")  # fmt: skip
            return self.error(f"{word} of what?", f"{word} is followed by parentheses", fix, start)
        if word.lower() in ("and", "or", "not", "is", "of", "within", "than", "by"):
            return self.error(f"{word!r} where a number belongs", "it stands between two conditions or numbers", _EXAMPLE, start)
        other = OTHER_NAMES.get(word.lower())
        near = difflib.get_close_matches(word.lower(), known, 1, 0.6 if opened else 0.8)
        fix = f"write {other}" if other else f"did you mean {near[0]}?" if near else ""
        if opened:
            return self.error(f"no measure {word[:40]!r}", rule, fix or _EXAMPLE, start)
        return self.error(f"{word[:40]!r} stands alone", "an arm stands in a measure, as gain(ARM)",
                          fix if other or near else f"write gain({word[:40]}), or loss({word[:40]})", start)  # fmt: skip

    def _function(self, name: str, start: int, paren: int) -> t.Function:
        args: list[t.Expression] = []
        with self.deeper():
            while True:
                here = self.at
                args.append(self._sum())
                self._number(args[-1], here, name)
                if len(args) > 1:
                    self._same_unit(args[0], args[-1], here, f"{name} with")
                if not self.take(","):
                    break
        self.close(paren)
        least, most = FUNCTIONS[name]
        if not least <= len(args) <= most:
            counted = "one number" if most == 1 else "two numbers or more"
            raise self.error(f"{name} of {len(args)}", f"{name} takes {counted}", f"write {name}(gain(A) - gain(B))" if most == 1
                             else f"write {name}(gain(A), gain(B))", start)  # fmt: skip
        return t.Function(name, tuple(args))

    def _outcome(self, start: int) -> t.Node:
        paren = self.at
        self.take("(")
        place = self.at
        prediction = self.value()
        self.close(paren)
        if not prediction:
            raise self.error("outcome of which prediction?", "outcome takes the name of another prediction", "write outcome(p1) is KILLED",
                             place)  # fmt: skip
        self.must("is", after="outcome(…)", example=f"write outcome({prediction}) is KILLED")
        at = self.at
        named = self._outcome_named()
        if named is None and self.take_word("not"):
            at = self.at
            named = self._outcome_named()
            node = t.Outcome(prediction, named or "")
            found: t.Node = t.Not(node)
        else:
            found = node = t.Outcome(prediction, named or "")
        if not named:
            raise self.error(f"{self.here()} where the name of an outcome belongs", f"outcomes are {', '.join(KINDS)}, or own names",
                             "write is KILLED", at)  # fmt: skip
        self.mentions.append(Mention(node, {"prediction": place + 1, "named": at + 1}))
        return found

    def _outcome_named(self) -> str | None:
        match = re.compile(r"NOT\s+ESTIMABLE\b").match(self.text, self.at)
        if match:
            self.at = match.end()
            self.space()
            return KINDS[3]
        if not self.end() and self.text[self.at] in "\"'":
            return self.value()
        if self.peek_word().lower() == "not":
            return None
        named = self.match(_NAME)
        self.space()
        return named


def _flat(kind: type[t.All] | type[t.Any], parts: list[t.Node]) -> t.All | t.Any:
    """Parts of the same kind are parts of the whole."""
    return kind(tuple(inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,))))
