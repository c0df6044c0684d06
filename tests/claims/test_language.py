"""The language of predictions: what each form reads as, its canonical text, and what is said of a text that does not read."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ostinato.claims import (
    MEASURES,
    All,
    Any,
    Binary,
    Comparison,
    Function,
    Measure,
    Negative,
    Not,
    Number,
    Outcome,
    measures,
    outcomes,
    parse_condition,
    parse_expression,
    read_condition,
)
from ostinato.claims.classes import FAMILIES, typed
from ostinato.claims.language import LONGEST, MOST_TERMS
from ostinato.claims.scanner import DEEPEST
from ostinato.errors import ClaimError

A, B, C = (Measure("gain", name) for name in "abc")


def test_the_example_of_the_documentation():
    share = Binary("/", *(Measure("gain", arm, (("class", "bigram-repeat"),)) for arm in ("loop2_attn", "loop2")))
    text = "gain(loop2_attn, class=bigram_repeat) / gain(loop2, class=bigram_repeat) >= 0.6"
    assert parse_condition(text) == Comparison(share, ">=", Number(0.6))
    assert str(parse_condition(text)) == text.replace("_repeat", "-repeat")


@pytest.mark.parametrize(("text", "value"), [("0.5", 0.5), ("1e-3", 0.001), ("43%", 0.43), ("100k", 1e5), ("2Ki", 2048), ("1_000", 1000),
                                             (".5", 0.5), ("0", 0), ("12.5%", 0.125), ("0.5B", 5e8), ("1E3", 1000)])  # fmt: skip
def test_numbers(text, value):
    assert parse_expression(text) == Number(value)


@pytest.mark.parametrize(("text", "node"), [
    ("1 - 2 - 3", Binary("-", Binary("-", Number(1), Number(2)), Number(3))),
    ("1 - (2 - 3)", Binary("-", Number(1), Binary("-", Number(2), Number(3)))),
    ("1 + 2 * 3 / 4", Binary("+", Number(1), Binary("/", Binary("*", Number(2), Number(3)), Number(4)))),
    ("-gain(a) * 2", Binary("*", Negative(A), Number(2))),
    ("-(gain(a) * 2)", Negative(Binary("*", A, Number(2)))),
    ("gain(a) − gain(b)", Binary("-", A, B)),
    ("min(gain(a), gain(b), 0.1)", Function("min", (A, B, Number(0.1)))),
    ("abs(gain(a))", Function("abs", (A,))),
    ("((gain(a)))", A),
])  # fmt: skip
def test_arithmetic(text, node):
    assert parse_expression(text) == node and parse_expression(str(node)) == node


@pytest.mark.parametrize(("text", "canonical"), [
    ("gain(a)>gain(b)>gain(c)", "gain(a) > gain(b) and gain(b) > gain(c)"),
    ("0.01 ≤ gain(a) <= 0.02", "0.01 <= gain(a) and gain(a) <= 0.02"),
    ("gain(a) within 0.003 of gain(b)", "gain(a) - gain(b) >= -0.003 and gain(a) - gain(b) <= 0.003"),
    ("gain(a) within 0.05 * gain(b) of gain(b)", "gain(a) - gain(b) >= -(0.05 * gain(b)) and gain(a) - gain(b) <= 0.05 * gain(b)"),
    ("gain(a) not worse than gain(b) by more than 0.003", "gain(a) - gain(b) >= -0.003"),
    ("gain(a) worse than gain(b) by more than 0.003", "gain(a) - gain(b) < -0.003"),
    ("gain(a) better than gain(b) by more than 0.003", "gain(a) - gain(b) > 0.003"),
    ("gain(a) not better than gain(b) by more than 0.003", "gain(a) - gain(b) <= 0.003"),
    ("loss(a) not worse than loss(b) by more than 0.003", "loss(a) - loss(b) <= 0.003"),
    ("loss(a) worse than loss(b) by more than 0.003", "loss(a) - loss(b) > 0.003"),
    ("loss(a) better than loss(b) by more than 0.003", "loss(a) - loss(b) < -0.003"),
    ("loss(a) not better than 3 by more than 0.1", "loss(a) - 3 >= -0.1"),
    ("0 - gain(a) not worse than loss(b) by more than 0.1", "0 - gain(a) - loss(b) <= 0.1"),
    ("2 * loss(a) not worse than loss(b) / 3 by more than 0.1", "2 * loss(a) - loss(b) / 3 <= 0.1"),
    ("outcome(E3) is KILL", "outcome(E3) is KILL"),
    ("outcome(E3) is not KILL", "not outcome(E3) is KILL"),
    ("outcome(E3) is NOT ESTIMABLE", "outcome(E3) is NOT ESTIMABLE"),
    ("outcome(E3) is not NOT  ESTIMABLE", "not outcome(E3) is NOT ESTIMABLE"),
    ('outcome("E3") is "so so"', 'outcome(E3) is "so so"'),
    ("(gain(a) > 1 and gain(b) > 1) and gain(c) > 1", "gain(a) > 1 and gain(b) > 1 and gain(c) > 1"),
    ("gain(a) > 1 OR (gain(b) > 1 or gain(c) > 1)", "gain(a) > 1 or gain(b) > 1 or gain(c) > 1"),
    ("(gain(a) > 1 or gain(b) > 1) and not (gain(c) > 1 and gain(a) > 2)",
     "(gain(a) > 1 or gain(b) > 1) and not (gain(c) > 1 and gain(a) > 2)"),
    ("not not gain(a) > 1", "not not gain(a) > 1"),
    ("(gain(a)) > (1)", "gain(a) > 1"),
    ("gain(GDN 2:1, class=k in view>=2, over=l9) > 1", "gain(GDN 2:1, class=k in view >= 2, over=l9) > 1"),
    ("gain('it''s, (so)', class=count 1,000-9,999) > 1".replace("count 1,000-9,999", '"count 1,000-9,999"'),
     'gain("it\'s, (so)", class="count 1,000-9,999") > 1'),
    ("gain(a, unit=nats, part=validation, class=all) > 1", "gain(a) > 1"),
    ("gain(a, part=held-out, unit=BITS, tokens=100k, seed=2) > 1", "gain(a, part=held_out, seed=2, tokens=100000, unit=bits) > 1"),
    ("pairs(a, convention=skip-first, term=filler gap) > 43%", "pairs(a, convention=skip_first, term=filler gap) > 0.43"),
    ("crossing(a) < first_pass_ends(a)", "crossing(a) < first_pass_ends(a)"),
    ("gain(a) /\n  gain(b)\t> 1", "gain(a) / gain(b) > 1"),
])  # fmt: skip
def test_conditions_and_their_canonical_text(text, canonical):
    assert str(parse_condition(text)) == canonical
    assert parse_condition(canonical) == parse_condition(text)


def test_spelled_variants_agree():
    for one, other in (("class=bigram-repeat", "class=bigram_repeat"), ("class=k>=2", 'class="k ≥ 2"'), ("class=R = new", "class=new"),
                       ("over=l9", "over='l9'"), ("tokens=0.1M", "tokens=100000")):  # fmt: skip
        assert parse_expression(f"gain(a, {one})") == parse_expression(f"gain( a ,{other} )")


def test_what_a_condition_names():
    text = "gain(a) / gain(b) > 1 and (outcome(E3) is KILL or not loss(a) < 2 * min(lens(c, application=0), 2)) and outcome(F) is not X"
    node = parse_condition(text)
    assert [str(one) for one in measures(node)] == ["gain(a)", "gain(b)", "loss(a)", "lens(c, application=0)"]
    assert [(one.prediction, one.named) for one in outcomes(node)] == [("E3", "KILL"), ("F", "X")]


def test_a_reading_knows_the_columns_of_names():
    text = 'gain(a, over = "b") > 1 and outcome( E3 ) is KILL'
    places = {key: text[column - 1 :] for mention in read_condition(text).mentions for key, column in mention.at.items()}
    assert {key: rest.split()[0] for key, rest in places.items()} == {"arm": "a,", "over": '"b")', "prediction": "E3", "named": "KILL"}


@pytest.mark.parametrize(("text", "column", "what", "help_"), [
    ("", 1, "nothing here", "gain(ARM) >= 0.01"),
    ("gian(a) > 1", 1, "no measure 'gian'", "did you mean gain?"),
    ("bpb(a) < 1", 1, "no measure 'bpb'", "loss(ARM, unit=bits)"),
    ("loop2 > base8", 1, "'loop2' stands alone", "gain(loop2)"),
    ("gain > 1", 1, "gain of what?", "gain(ARM)"),
    ("gain() > 1", 6, "gain of which arm?", "gain(ARM)"),
    ("gain(class=new) > 1", 6, "class= where an arm belongs", "gain(ARM)"),
    ("gain(a, clas=new) > 1", 9, "no option 'clas'", "class="),
    ("gain(a, against=b) > 1", 9, "no option 'against'", "over="),
    ("params(a, unit=bits) > 1", 11, "no option 'unit'", "an option of gain, loss"),
    ("gain(a, new) > 1", 9, "'new' is not an option", "class=new"),
    ("gain(a, bits) > 1", 9, "'bits' is not an option", "unit=bits"),
    ("gain(a, b) > 1", 9, "'b' is not an option", "over=ARM"),
    ("gain(a, ) > 1", 9, "an option is missing", "over=ARM"),
    ("gain(a, class=tok-repaet) > 1", 15, "no token class", "tok-repeat"),
    ("gain(a, class=R) > 1", 15, "R is a family of 3 classes", "new, tok-repeat"),
    ("gain(a, class=k>=3) > 1", 15, "no match has the length 3", "lengths are 0, 1, 2"),
    ("gain(a, class=) > 1", 15, "class is given no value", "leave it out"),
    ("gain(a, class=new, class=k>=2) > 1", 20, "class is given twice", "keep one"),
    ("gain(a, unit=bit) > 1", 14, "unit 'bit'", "unit=bits"),
    ("gain(a, seed=x) > 1", 14, "'x' is not a number", "seed=0"),
    ("gain(a, tokens=0) > 1", 16, "tokens 0", "tokens=1"),
    ("gain(a, over=a) > 1", 14, "a over itself", "over="),
    ("pairs(a, field=x, term=y) > 1", 24, "field and term together", "keep one"),
    ("lens(a) > 1", 1, "lens without application", "application=0"),
    ("depth(a, passes=0) > 1", 17, "passes 0", "passes=1"),
    ("gain(a) > gain(b, unit=bits)", 9, "nats a token > bits a byte", "same unit="),
    ("gain(a) + params(b) > 1", 9, "nats a token + parameters", "same unit="),
    ("min(gain(a), loss(b, unit=bits)) > 1", 14, "nats a token min with bits a byte", "same unit="),
    ("gain(a) == 1", 9, "'==' between numbers", "within 0.003 of"),
    ("gain(a) > 1 > gain(b) < 2", 23, "'<' after '>'", "two comparisons"),
    ("gain(a) > 1 & gain(b) > 1", 13, "'&' after", "and"),
    ("gain(a) > 1 adn gain(b) > 1", 13, "'adn' after", "and"),
    ("gain(a) > 1, gain(b) > 1", 12, "a comma here", "and"),
    ("gain(a) and gain(b) > 1", 1, "'and' with a number", "compare it"),
    ("gain(a) > 1 or gain(b)", 16, "'or' with a number", "compare it"),
    ("not gain(a)", 1, "'not' with a number", "compare it"),
    ("(gain(a) > 1) + 2 > 3", 1, "'+' with a condition", "and"),
    ("gain(a) - (gain(b) > 1) > 3", 11, "'-' with a condition", "and"),
    ("gain(a)", 1, "a number where a condition belongs", ">= 0.01"),
    ("gain(a) >", 10, "the end where a number belongs", "gain(ARM)"),
    ("gain(a) > and", 11, "'and' where a number belongs", "gain(ARM)"),
    ("gain(a > 1", 5, "this parenthesis is not closed", ")"),
    ("gain(a)) > 1", 8, "this parenthesis closes nothing", "("),
    ("(gain(a) > 1", 1, "this parenthesis is not closed", ")"),
    ("(gain(a) gain(b)) > 1", 10, "where the parenthesis of column 1 should close", "operator"),
    ("gain(a / gain(b) > 1", 14, "'(' within a name", "in quotes"),
    ('gain("a) > 1', 6, "this quote is not closed", "add the mark"),
    ('"a" > 1', 1, "a quoted name where a number belongs", "gain("),
    ("gain(a) within 5% of gain(b)", 16, "a percentage of what?", "0.05 * Y of Y"),
    ("gain(a) within -1 of gain(b)", 16, "'within' a number below 0", "minus"),
    ("gain(a) within 1 gain(b)", 18, "where the word 'of' belongs", "within 0.003 of"),
    ("gain(a) not worse than gain(b)", 31, "the end where the word 'by' belongs", "by more than 0.003"),
    ("gain(a) not gain(b)", 13, "'gain' after 'not'", "not worse than"),
    ("gain(a) / gain(b) not worse than 1 by more than 0.1", 19, "neither more nor less is known to be better", "< or >"),
    ("gain(a) - loss(a) + loss(a) not worse than 1 by more than 0.1", 29, "neither more nor less", "< or >"),
    ("crossing(a) not worse than 1 by more than 2", 13, "neither more nor less", "< or >"),
    ("min(gain(a)) > 1", 1, "min of 1", "min(gain(A), gain(B))"),
    ("abs(1, 2) > 1", 1, "abs of 2", "abs(gain(A) - gain(B))"),
    ("max > 1", 1, "max of what?", "max(gain(A), gain(B))"),
    ("outcome(E3) KILL", 13, "where the word 'is' belongs", "is KILLED"),
    ("outcome() is KILL", 9, "outcome of which prediction?", "outcome(p1)"),
    ("outcome(E3) is", 15, "the end where the name of an outcome belongs", "is KILLED"),
    ("1k2 > 2", 1, "1k2 is not a number", "write 1"),
    ("1e999 > 2", 1, "outside what a float can hold", "correct"),
    ("gain(a) > 1; 2", 12, "';' after", "operator"),
    ("gain(a\x00b) > 1", 6, "cannot be printed", "as it stands"),
    ("(" * 40 + "1", DEEPEST + 2, "too much within each other", "flatter"),
    ("not " * 40 + "gain(a) > 1", 4 * (DEEPEST + 1) + 1, "too much within each other", "flatter"),
    ("1 + " * 200 + "1", 4 * MOST_TERMS + 1, f"more than {MOST_TERMS} terms", "split"),
    ("1 " * LONGEST, LONGEST + 1, f"a text of {2 * LONGEST:,} characters", "split"),
])  # fmt: skip
def test_what_is_said_of_a_text_that_does_not_read(text, column, what, help_):
    with pytest.raises(ClaimError) as caught:
        parse_condition(text)
    error = caught.value
    assert (error.column, error.text) == (column, text)
    assert what in error.what and f"column {column}" in error.what and help_ in f"{error.rule} {error.fix}"
    assert error.rule and error.fix and len(str(error)) < 500


def test_an_expression_is_no_condition():
    with pytest.raises(ClaimError, match="a condition where an expression belongs"):
        parse_expression("gain(a) > 1")


# --- properties

names = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=6)
arms = st.lists(names, min_size=1, max_size=3).map(" ".join)
classes = st.sampled_from([typed(one) for family in FAMILIES.values() for one in family.classes] + ["k >= 2", "count < 1,000"])


@st.composite
def drawn_measures(draw, name=None):
    spec = MEASURES[name or draw(st.sampled_from(sorted(MEASURES)))]
    name = next(key for key, other in MEASURES.items() if other is spec)
    arm, options = draw(arms), {}
    for key, option in spec.options.items():
        if key == "unit" or not (option.required or draw(st.booleans())) or (key in spec.alone and set(spec.alone) & set(options)):
            continue
        value = {"class": classes, "arm": arms, "name": arms, "word": st.just(option.words[-1:]), "count": st.integers(option.least, 10**6)}
        chosen = draw(value[option.kind])
        options[key] = chosen[0] if option.kind == "word" else str(chosen)
    if options.get("over") == arm:
        del options["over"]
    return Measure(name, arm, tuple(sorted(options.items())))


def expressions(leaf):
    def grown(inner):
        pair = st.builds(Binary, st.sampled_from("+-*/"), inner, inner)
        few = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return pair | st.builds(Negative, inner) | st.builds(Function, st.sampled_from(("min", "max")), few)

    return st.recursive(leaf, grown, max_leaves=4)


numbers = st.floats(0, 1e12, allow_nan=False).filter(lambda value: value == 0 or value > 1e-300).map(Number)
gains = expressions(numbers | drawn_measures("gain"))
comparisons = st.builds(Comparison, gains, st.sampled_from(("<", "<=", ">", ">=")), gains) | st.builds(
    Comparison, expressions(drawn_measures()).filter(lambda node: isinstance(node, Measure)), st.just(">"), numbers)  # fmt: skip
words = st.from_regex(r"[A-Za-z0-9_.-]{1,8}", fullmatch=True)
told = st.builds(Outcome, words, words | st.sampled_from(["NOT ESTIMABLE", "so so", "not", "NOT-SO", "is not"]))


def joined(inner):
    """`and` and `or` in normal form: none directly within one of its kind."""
    parts = st.lists(inner, min_size=2, max_size=3)
    both = parts.map(lambda found: All(tuple(part for one in found for part in (one.parts if isinstance(one, All) else (one,)))))
    either = parts.map(lambda found: Any(tuple(part for one in found for part in (one.parts if isinstance(one, Any) else (one,)))))
    return both | either | st.builds(Not, inner)


conditions = st.recursive(comparisons | told, joined, max_leaves=4)


@settings(max_examples=30, deadline=None)
@given(conditions)
def test_canonical_text_reads_as_the_same_node(node):
    assert parse_condition(str(node)) == node


pieces = st.sampled_from([*"()+-*/><=,\"' \n1aé", "gain(", "loss(a)", "class=", "k>=2", "over=", "and", "or", "not", "within", "of",
                          "worse", "than", "by", "more", "outcome(", "is", "min(", "0.5", "43%"])  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.lists(pieces, max_size=30).map(" ".join) | st.lists(pieces, max_size=20).map("".join) | st.text(max_size=60))
@example("not(" * 900 + "1")
@example("-" * 4000)
@example("(" * 4000)
@example("outcome(" * 500)
@example("gain('" * 600)
@example("\u0661 > \u00b2")
@example("min(1," * 600)
@example("1" * 3999)
@example("gain(" + "a " * 1900 + ")")
def test_no_text_raises_anything_but_our_own_error(text):
    for read in (parse_condition, parse_expression):
        try:
            node = read(text)
        except ClaimError as error:
            assert 1 <= error.column <= len(text) + 1 and error.rule
        else:
            assert read(str(node)) == node
