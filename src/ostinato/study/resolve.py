"""From the tree of a study file to its records: the size laid over the study, every arm over the study's model, recipe and data."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ostinato.errors import StudyError
from ostinato.study.derive import expanded
from ostinato.study.grid import spelled
from ostinato.study.merge import merge, without_nulls
from ostinato.study.outcomes import ill_formed
from ostinato.study.pair_folder import pair_folder
from ostinato.study.problems import Problem
from ostinato.study.reading import Section, where
from ostinato.study.ready import CORPORA, HUB_ID, READY
from ostinato.study.records import Arm, Data, Model, Recipe, Study
from ostinato.study.shape import OF_AN_ARM, as_list
from ostinato.study.strict import as_plain

_PATH = re.compile(r"[./~\\]|.*\.(txt|text|md|rst|jsonl?|ndjson|parquet|arrow|tar|tgz|gz|bz2|xz|zst)$", re.IGNORECASE)
DEFAULT_SEEDS = ["1"]


@dataclass
class Resolved:
    """A study, with the keys of each arm as they were written (their texts know their lines), problems and warnings."""

    study: Study | None = None
    written: dict[str, dict[str, Any]] = field(default_factory=dict)
    keys: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def resolve(tree: Section, name: str, size: str | None, base: Path) -> Resolved:
    """The study in the asked size (default: its first), paths made absolute from `base`. The tree has passed `strict.check`."""
    found = Resolved()
    keys = _with_size(tree, size, found)
    if keys is None:
        return found
    arms, problems = spelled(keys)
    if problems:
        found.problems.extend(problems)
        return found
    keys["arms"] = merge(arms, keys.get("arms") or {})
    found.keys = keys
    given = {arm: body for arm, body in (keys.get("arms") or {}).items() if body is not None}
    if not given:
        found.problems.append(
            Problem(tree.key_lines.get("arms"), "arms", "there is no arm", "a study has at least one", "arms: {plain: {}}, or a grid")
        )
        return found
    arms = [arm for arm in (_arm(arm, body, keys, tree, base, found) for arm, body in given.items()) if arm]
    kept = ("question", "about", "source", "ours", "evaluate", "checkpoints", "measure", "quantities")
    top = without_nulls({key: keys[key] for key in kept if key in keys})
    top["predictions"] = [without_nulls(one) for one in keys.get("predictions") or ()]
    found.problems.extend(ill_formed(keys))
    if (pairs := (top.get("measure") or {}).get("pairs")) is not None and str(pairs).strip().lower() != "none":
        try:
            top["measure"] = {**top["measure"], "pairs": pair_folder(str(pairs), base)}
        except StudyError as error:
            found.problems.append(Problem.of(error, getattr(pairs, "line", None), "measure.pairs"))
    if not found.problems:
        reference = str(keys["reference"]) if keys.get("reference") is not None else arms[0].name
        chosen = size or next(iter(tree.get("sizes") or {}), None)
        found.study = Study(name=name, size=chosen, arms=tuple(arms), reference=reference, **as_plain(top))
    return found


def _with_size(tree: Section, size: str | None, found: Resolved) -> dict[str, Any] | None:
    """The study's keys with those of the size laid over; in a size, an arm that is null is left out."""
    keys = {key: value for key, value in tree.items() if key != "sizes"}
    if keys.get("arms") is not None:
        keys["arms"] = {arm: {} if body is None else body for arm, body in keys["arms"].items()}
    sizes = tree.get("sizes") or {}
    if size is not None and size not in sizes:
        near = difflib.get_close_matches(size, sizes, n=1)
        fix = near[0] if near else f"one of {', '.join(sizes)}" if sizes else "leave the size out"
        found.problems.append(
            Problem(
                tree.key_lines.get("sizes"), "sizes", f"there is no size {size!r}", "a size is one of those in the study's `sizes`", fix
            )
        )
        return None
    chosen = sizes.get(size or next(iter(sizes), None)) or {}
    for arm, body in (chosen.get("arms") or {}).items():
        if body is None and arm not in (keys.get("arms") or {}):
            near = difflib.get_close_matches(arm, keys.get("arms") or {}, n=1)
            found.problems.append(
                Problem(
                    chosen["arms"].key_lines[arm],
                    ".".join(chosen["arms"].place),
                    f"no arm {arm!r} to leave out",
                    "an empty arm in a size leaves out that arm of the study",
                    near[0] if near else f"{arm}: {{}} adds an arm",
                )
            )
    return merge(keys, chosen)


def _arm(name: str, body: dict[str, Any], keys: dict[str, Any], tree: Section, base: Path, found: Resolved) -> Arm | None:
    own = {key: body[key] for key in body if key not in OF_AN_ARM}
    model = without_nulls(merge(keys.get("model") or {}, own))
    recipe = without_nulls(merge(keys.get("recipe") or {}, body.get("recipe") or {}))
    data = without_nulls(merge(keys.get("data") or {}, body.get("data") or {}))
    seeds = next(given for given in (body.get("seeds"), keys.get("seeds"), DEFAULT_SEEDS) if given is not None)
    extra = without_nulls({key: body.get(key) for key in ("note", "contingent", "run_if", "against", "again", "seed_names")})
    found.written[name] = {**model, **extra, "recipe": recipe, "data": data, "seeds": seeds}
    missing = [key for key in ("layers", "d_model", "heads") if key not in model]
    if missing:
        line = tree.key_lines.get("model") or getattr(body, "line", None)
        found.problems.append(
            Problem(
                line,
                "model",
                f"{', '.join(missing)} not given",
                "a model has layers, d_model and heads",
                f"model: {{{missing[0]}: 4}}",
                arms=(name,),
            )
        )
        return None
    data = _with_paths(data, base, name, found)
    try:
        return Arm(
            name=name,
            model=Model(**as_plain(model)),
            recipe=Recipe(**as_plain(recipe)),
            data=Data(**as_plain(data)),
            seeds=as_list(as_plain(seeds)),
            **as_plain(extra),
        )
    except ValidationError as error:
        first = error.errors()[-1]  # of a value or a section: what is wrong with the section
        at: Any = found.written[name]
        for step in first["loc"]:
            at = at.get(step, at) if isinstance(at, dict) else at
        place = getattr(at, "place", ("arms", name, *map(str, first["loc"])))
        what = str(first.get("ctx", {}).get("error", first["msg"]))
        found.problems.append(Problem(getattr(at, "line", getattr(body, "line", None)), where(place), what, arms=(name,)))
        return None


def _with_paths(data: dict[str, Any], base: Path, arm: str, found: Resolved) -> dict[str, Any]:
    """The data keys with files and folders as absolute paths; built-in names and hub ids as they are."""
    data = dict(data)
    if (corpus := data.get("corpus")) is not None and corpus not in (*CORPORA, *READY):
        path = base / expanded(corpus)
        if path.exists():
            data["corpus"] = str(path.resolve())
        elif _PATH.match(corpus):
            data["corpus"] = str(path.absolute())
            found.warnings.append(f"corpus {path} is not there: the study can be planned, not run")
        elif not HUB_ID.fullmatch(corpus):
            near = difflib.get_close_matches(corpus, (*CORPORA, *READY), n=1)
            found.problems.append(
                Problem(
                    getattr(corpus, "line", None),
                    "data.corpus",
                    f"there is no corpus {str(corpus)!r}",
                    f"a corpus is {', '.join((*CORPORA, *READY))}, a file or folder beside the study, or a hub id owner/name",
                    near[0] if near else f"./{corpus} for a file",
                    arms=(arm,),
                )
            )
    large = READY[data["corpus"]].large if data.get("corpus") in READY else ""
    if large and data.get("most") is None:
        found.warnings.append(f"corpus {data['corpus']} has {large}, and all of it is streamed: `most: 2G` streams the first 2 GB of text")
    tokenizer = data.get("tokenizer") or {}
    if tokenizer.get("file") is not None:
        data["tokenizer"] = {**tokenizer, "file": str((base / expanded(tokenizer["file"])).absolute())}
    return data
