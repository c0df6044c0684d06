"""A replay: published results and the predictions that were made of them, in a YAML file that has a `table` where a study has arms.

`ostinato judge` reads one as it reads a study. Shipped ones are called `replays/NAME`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pydantic import Field, ValidationError

from ostinato.claims import parse_condition, parse_expression
from ostinato.errors import ClaimError, StudyError
from ostinato.study import strict
from ostinato.study.derive import expanded
from ostinato.study.load import HERE, SUFFIXES, read_file
from ostinato.study.merge import without_nulls
from ostinato.study.numbers import Count, Real
from ostinato.study.outcomes import ill_formed, is_otherwise, written
from ostinato.study.problems import Problem, refuse
from ostinato.study.reading import Section, Unreadable, read
from ostinato.study.records import Prediction, Record
from ostinato.study.shape import Keys, keys_of, study_keys

SHIPPED = HERE / "shipped" / "replays"
FOLDER = "replays/"


class Noise(Record):
    """What a paper says of its noise, by the headers of its table: {"loss(unit=bits)": 0.0009}. A gain has the noise of its losses."""

    seed: dict[str, Real] = Field({}, description="how much one configuration differs between two seeds")
    implementation: dict[str, Real] = Field({}, description="how much it differs when the same seed is run again in another way")
    deviation: dict[str, Real] = Field({}, description="or the standard deviation between `seeds` runs of one configuration")
    seeds: Count = Field(2, ge=2, description="how many runs a stated deviation is from")


class Ranking(Record):
    """Arms that are put in an order, so that it is said which neighbours the noise cannot tell apart."""

    by: str = Field("loss", description="a header of the table, or what follows from one: loss(unit=bits), ppl")
    arms: tuple[str, ...] = Field(min_length=2)


class Replay(Record):
    """A published table, and what is asked of it."""

    name: str
    question: str = Field("", description="what the comparison is meant to settle, one line")
    about: str = Field("", description="what a reader should know before reading the table")
    source: str = Field(description="where the numbers come from")
    note: str = Field(description="how they were transcribed, and when the predictions were: shown with every judgement")
    table: str = Field(description="the CSV or JSON file of arms by measures, beside the replay")
    reference: str | None = Field(None, description="the arm that the others are compared with, where a row says no `against`")
    noise: Noise = Noise()
    predictions: tuple[Prediction, ...] = ()
    quantities: dict[str, str] = Field({}, description="numbers that are shown and not judged, by name")
    contingent: dict[str, str] = Field({}, description="arms that were to run only where a condition held: {arm: condition}")
    confounded: dict[str, str] = Field({}, description="arms that differ in more than what is compared: {arm: in what}")
    rankings: dict[str, Ranking] = Field({}, description="which neighbours of an order are told apart, by name")
    after_results: dict[str, str] = Field({}, description="predictions that were made after some results: {prediction: which}")
    given: str = Field("", description="the text of the file")


def is_replay(source: str | Path) -> bool:
    """Whether it names a shipped replay, or a YAML file with a `table` and no arms."""
    path = _path(source)
    if path.suffix not in SUFFIXES or not path.is_file():
        return str(source).startswith(FOLDER) and not path.exists()
    try:
        tree, _ = read(path.read_bytes())
    except (OSError, Unreadable):
        return False
    return "table" in tree and "arms" not in tree


def load_replay(source: str | Path) -> Replay:
    """The replay in a YAML file, or a shipped one (`replays/NAME`), with the path of its table made absolute.

    Raises StudyError that tells every problem with its key, line and the nearest right name.
    """
    path = _path(source)
    if not path.exists():
        names = [FOLDER + name for name in shipped_replays()]
        near = difflib.get_close_matches(str(source), names, n=1)
        rule = "a replay is a YAML file with a table, or the name of a shipped one"
        raise StudyError(f"there is no replay {str(source)!r}", rule, near[0] if near else f"one of {', '.join(names)}")
    file = f"shipped replay {path.stem}" if path.parent == SHIPPED else str(source)
    content, tree, problems = read_file(path, file, "replay")
    refuse(file, problems + strict.check(tree, _keys()) + list(_missing(tree)))
    refuse(file, [*ill_formed(tree), *_unread(tree)])
    given = without_nulls(strict.as_plain(tree))
    named = [{**without_nulls(strict.as_plain(keys)), "name": name} for name, keys in written(tree)]
    table = str((path.parent / expanded(given["table"])).absolute())
    try:
        replay = Replay(**{**given, "name": path.stem, "predictions": named, "table": table, "given": content.decode("utf-8-sig")})
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0]) if first["loc"] else ""
        what = str(first["ctx"]["error"]) if first["type"] == "value_error" else first["msg"]
        refuse(file, [Problem(tree.key_lines.get(key), ".".join(map(str, first["loc"])), what)])
    refuse(file, _not_predicted(replay, tree))
    return replay


def shipped_replays() -> dict[str, str]:
    """The shipped replays: name and question."""
    return {file.stem: " ".join(str(read(file.read_bytes())[0].get("question") or "").split()) for file in sorted(SHIPPED.glob("*.yaml"))}


def _path(source: str | Path) -> Path:
    name = str(source).removeprefix(FOLDER)
    inside = SHIPPED / f"{name}.yaml"
    return inside if str(source).startswith(FOLDER) and "/" not in name and inside.exists() else expanded(source)


def _keys() -> Keys:
    """The shape of a replay file; predictions are those of a study."""
    keys = {key: shape for key, shape in keys_of(Replay).keys.items() if key not in ("name", "given")}
    return Keys({**keys, "predictions": study_keys().keys["predictions"]})


def _unread(tree: Section) -> Iterator[Problem]:
    """Texts that do not parse. Arms are looked up in the table: one that it lacks is not estimable, as one that was not run."""
    for name, given in written(tree):
        texts = [(given[key], f"predictions.{name}.{key}") for key in ("supported", "killed") if isinstance(given.get(key), str)]
        texts += [(text, f"predictions.{name}.{key}.{own}") for key in ("supported", "killed", "between")
                  if isinstance(given.get(key), dict) for own, text in given[key].items()]  # fmt: skip
        yield from _of_texts(((text, where) for text, where in texts if not is_otherwise(text)), parse_condition)
        guess = given.get("guess") or Section()
        yield from _of_texts(((text, f"predictions.{name}.guess") for text in guess), parse_expression, given.line)
    for key, parse in (("quantities", parse_expression), ("contingent", parse_condition)):
        yield from _of_texts(((text, f"{key}.{name}") for name, text in (tree.get(key) or {}).items() if text is not None), parse)


def _of_texts(texts: Iterable[tuple[str, str]], parse: Callable[[str], object], line: int | None = None) -> Iterator[Problem]:
    for text, where in texts:
        try:
            parse(str(text))
        except ClaimError as error:
            yield Problem.of(error, getattr(text, "line", line), where)


def _missing(tree: Section) -> Iterator[Problem]:
    for key in ("source", "note", "table"):
        if tree.get(key) is None:
            yield Problem(None, key, "it is not given", f"a replay says {Replay.model_fields[key].description}", f"{key}: …")


def _not_predicted(replay: Replay, tree: Section) -> Iterator[Problem]:
    """Keys of `after_results` that name no prediction."""
    names = [one.name for one in replay.predictions]
    rule = f"predictions are {', '.join(names)}"
    for name in replay.after_results:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            yield Problem(tree.key_lines.get("after_results"), "after_results", f"no prediction {name!r}", rule, near[0] if near else "")
