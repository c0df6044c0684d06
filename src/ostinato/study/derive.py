"""What follows from the records of a study: sizes, windows, ties, the schedule, steps, optimizer groups. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ostinato.errors import StudyError
from ostinato.schedule import Application, RepeatedGroup, Schedule, parse, plain, repeated_groups
from ostinato.schedule.passes import with_passes
from ostinato.study import bos, ties
from ostinato.study.draws import fixed
from ostinato.study.numbers import LARGEST
from ostinato.study.records import Model, Passes, Recipe, Role, Tokenizer
from ostinato.study.tokenizer_files import read_tokenizer

ROLES: tuple[str, ...] = Role.__args__
MUON_ROLES = ("matrix", "gate")
GATE_CHANNELS = 32


@dataclass(frozen=True)
class Steps:
    """A token budget in whole steps: `rows` rows of context a step, `tokens` = steps x tokens_per_step."""

    steps: int
    rows: int
    tokens_per_step: int
    tokens: int


@dataclass(frozen=True)
class GroupResolved:
    """How a role of parameter is optimised, every blank filled. lr includes the width factor."""

    kind: str
    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float


def model_hidden(model: Model) -> int:
    """Width of the MLP. Raises StudyError when neither hidden nor ratio, or both, or not a whole number of channels."""
    hidden, ratio = model.mlp.hidden, model.mlp.ratio
    if (hidden is None) == (ratio is None):
        raise StudyError(
            f"mlp gives {'neither hidden nor ratio' if hidden is None else f'hidden {hidden} and ratio {ratio:g}'}",
            "the MLP's width is hidden, or ratio times d_model",
            f"hidden: {4 * model.d_model}" if hidden is None else "leave one of them out",
        )
    if hidden is not None:
        return hidden
    width = min(ratio * model.d_model, float(LARGEST))
    if round(width) < 1 or abs(width - round(width)) > 1e-6 * width or width >= LARGEST:
        raise StudyError(
            f"mlp ratio {ratio:g} times d_model {model.d_model} is {ratio * model.d_model:g}",
            "the MLP has a whole number of channels",
            f"hidden: {max(1, round(width))}",
        )
    return round(width)


def head_dim(model: Model) -> int:
    """Channels of one head. Raises StudyError when heads does not divide d_model and head_dim is not given."""
    if model.head_dim is not None:
        return model.head_dim
    if model.d_model % model.heads:
        near = (model.heads + sign * offset for offset in range(1, 4096) for sign in (-1, 1))
        nearest = next((heads for heads in near if heads > 0 and model.d_model % heads == 0), 1)
        raise StudyError(
            f"{model.heads} heads do not divide d_model {model.d_model}",
            "head_dim is d_model / heads",
            f"heads: {nearest}, or give head_dim",
        )
    return model.d_model // model.heads


def kv_heads(model: Model) -> int:
    """Key-value heads. Raises StudyError when they do not divide the query heads."""
    shared = model.heads if model.kv_heads is None else model.kv_heads
    if model.heads % shared:
        raise StudyError(
            f"{shared} kv_heads do not divide {model.heads} heads",
            "each key-value head serves the same number of query heads",
            "choose a divisor of heads",
        )
    return shared


def layer_window(model: Model, layer: int, context: int) -> int:
    """Keys that a query of this layer (from 1) may see, itself included; at most the context. The last layer sees it all, and so does a
    gated delta layer, which has no keys."""
    pattern = model.windows.pattern
    if layer == len(model.layers) or pattern[(layer - 1) % len(pattern)] == "L" or model.layers[layer - 1] == "gdn":
        return context
    if model.windows.short is None:
        raise StudyError(
            f"windows pattern {pattern} has short windows but no width",
            "S is windows.short keys, the query itself included",
            "windows: {short: …}",
        )
    return min(model.windows.short, context)


def has_value_table(model: Model, layer: int) -> bool:
    """Whether this layer (from 1) adds a value embedding; `alternate` counts back from the last layer."""
    if model.value_embeddings == "none" or model.layers[layer - 1] != "gqa":
        return False
    return model.value_embeddings == "all" or (len(model.layers) - layer) % 2 == 0


def tied_to(model: Model) -> dict[tuple[int, str], int]:
    """For each tied sublayer, as (layer, "attn" or "mlp"), the layer that owns its parameters."""
    return ties.resolve(model.tie, model.layers)


def arm_schedule(model: Model) -> Schedule:
    """The order in which layers run; each once when the model gives none. Raises ScheduleError."""
    return plain(len(model.layers)) if model.schedule is None else parse(model.schedule, len(model.layers))


def arm_applications(model: Model) -> tuple[Application, ...]:
    """The schedule as applications, of drawn passes those it is measured with.

    Raises ScheduleError, also when {r} and `passes` do not go together.
    """
    return arm_schedule(model).applications(fixed(model.passes))


def pass_groups(model: Model) -> tuple[RepeatedGroup, ...]:
    """The repeated groups where something depends on the pass: a linear injection, a norm at its end, a gradient; none without any.

    Raises ScheduleError when it has one of them and a pass of its schedule could begin at more than one place.
    """
    if not counts_passes(model):
        return ()
    if isinstance(model.passes, Passes):  # whose groups are there in a step of one pass, too
        return with_passes(arm_schedule(model), fixed(model.passes), fixed(model.passes))[1]
    return repeated_groups(arm_applications(model))


def counts_passes(model: Model) -> bool:
    """Does something happen where a pass of a repeated group begins or ends?"""
    return model.inject == "linear" or model.pass_norm or model.backprop is not None


def draws_h0(model: Model) -> bool:
    """Does a group begin with noise instead of its own input?"""
    return model.h0 == "noise" and model.inject == "linear" and bool(pass_groups(model))


def h0_std(model: Model) -> float:
    """Of the noise: that of the embedding at the start, so that h0 is of the size of what e is made from.

    As in the source (Geiping et al., arXiv 2502.05171), where both are sqrt(2/5): its embedding is drawn with that, as its noise is.
    """
    return 1.0 if model.embedding_norm or model.init.rule == "loop2" else model.init.std


def expanded(path: str | Path) -> Path:
    """The path with ~ as the home folder; one that names nobody's home stays as it is."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def vocab(tokenizer: Tokenizer, base: Path | None = None) -> int:
    """Entries of the vocabulary: `bpe`, or those of the tokenizer file (relative to `base`) with a BOS, added if it has none.

    Raises StudyError when neither or both are given, or the file is missing or no tokenizer.json.
    """
    if (tokenizer.bpe is None) == (tokenizer.file is None):
        raise StudyError(
            "tokenizer gives " + ("neither bpe nor file" if tokenizer.bpe is None else "both bpe and file"),
            "a tokenizer is trained or read",
            "tokenizer: {bpe: 1024}",
        )
    if tokenizer.bpe is not None:
        return tokenizer.bpe
    path = (base or Path()) / expanded(tokenizer.file)
    try:
        content, declared = read_tokenizer(path)
        if not bos.entries(content):
            raise ValueError("an empty vocabulary")
        return bos.size(content, declared)
    except OSError as error:
        raise StudyError(
            f"tokenizer file {path}: {error.strerror or error}",
            "file is the path of a tokenizer.json, or of a folder with one",
            "correct the path, or train one: tokenizer: {bpe: 1024}",
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise StudyError(
            f"tokenizer file {path} is no tokenizer.json",
            "file is what the tokenizers library saves, with model.vocab",
            "save it with Tokenizer.save, or train one: tokenizer: {bpe: 1024}",
        ) from None


def recipe_steps(recipe: Recipe) -> Steps:
    """The budget in whole steps: batch rounded down to whole rows, tokens to whole steps. Raises StudyError below one of either."""
    rows = recipe.batch // recipe.context
    if rows < 1:
        raise StudyError(
            f"batch {recipe.batch:,} is less than one row of context {recipe.context:,}",
            "a step holds whole rows",
            f"batch: {recipe.context}, or more",
        )
    per_step = rows * recipe.context
    steps = recipe.tokens // per_step
    if steps < 1:
        raise StudyError(
            f"tokens {recipe.tokens:,} are fewer than one step of {per_step:,}",
            "training takes at least one step",
            f"tokens: {per_step}, or more",
        )
    return Steps(steps, rows, per_step, steps * per_step)


def optimizer_groups(recipe: Recipe, model: Model) -> dict[str, GroupResolved]:
    """For every role of parameter its optimizer, blanks filled from the recipe. Muon takes matrices inside layers, gates included.

    Raises StudyError when a group asks Muon for a role that is not a matrix inside a layer, or gives it what it has not.
    """
    resolved = {}
    for role in ROLES:
        group = recipe.groups.get(role)
        kind = "muon" if recipe.optimizer == "muon" and role in MUON_ROLES else "adamw"
        given = {} if group is None else {key: value for key, value in group.model_dump().items() if value is not None}
        width_base = given.pop("width_base", None)
        given = {"kind": kind, "lr": recipe.lr, "betas": recipe.betas, "eps": recipe.eps, "weight_decay": recipe.weight_decay} | given
        if given["kind"] == "muon" and role not in MUON_ROLES:
            raise StudyError(
                f"groups: {role} asks for muon",
                f"Muon is for 2-D matrices inside layers: {', '.join(MUON_ROLES)}",
                f"{role}: {{kind: adamw}}",
            )
        if given["kind"] == "muon" and group is not None and (group.betas is not None or group.eps is not None):
            raise StudyError(
                f"groups: {role} gives {'betas' if group.betas is not None else 'eps'}",
                "Muon has neither betas nor eps; its momentum is in recipe.muon",
                f"{role}: {{kind: adamw}}, or leave it out",
            )
        if width_base is not None:
            given["lr"] *= (model.d_model / width_base) ** -0.5
        resolved[role] = GroupResolved(**given)
    return resolved
