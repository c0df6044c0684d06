"""The study file as frozen, strict records: what each key means, its type and its default. Records have no verbs.

Units: tokens unless said otherwise. `None` as a default means "follow from the rest", and `resolve` says from what.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo

from ostinato.study.families import with_family
from ostinato.study.layers import layer_kinds
from ostinato.study.numbers import Count, Real, Switch
from ostinato.study.ready import with_ready

LayerKind = Literal["gqa", "gdn"]
Role = Literal["matrix", "gate", "norm", "embedding", "head", "positions", "value_table", "bigram_table",
               "residual_scalar", "x0_scalar", "convolution", "decay", "connection"]  # fmt: skip
MeasureName = Literal["lens", "skips", "depths", "states", "heads", "speed", "pairs"]
MEASURE_NAMES: tuple[str, ...] = MeasureName.__args__


def none_is_none(field: FieldInfo, value: Any) -> Any:
    """`none`, for a key that may be left without a value (softcap: none), is no value; a default is not meant by it."""
    optional = type(None) in getattr(field.annotation, "__args__", ())
    return None if optional and isinstance(value, str) and value.strip().lower() == "none" else value


class Record(BaseModel):
    """A frozen record that refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _none(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        fields = cls.model_fields
        return {key: none_is_none(fields[key], value) if key in fields else value for key, value in given.items()}


class Tokenizer(Record):
    """How text becomes tokens: trained here, or read."""

    bpe: Count | None = Field(None, ge=258, description="train a byte-level BPE with this many entries, specials included")
    file: str | None = Field(None, description="or use this tokenizer.json, or the one in this Hugging Face folder")


class Data(Record):
    """The text: where it is, how it is split, cut into tokens and packed into rows."""

    corpus: str = Field(
        "python-docs",
        description="python-docs, python-docs-plus, a file or folder (text, JSONL, Parquet, Arrow, tar; also gz, bz2, xz, zst), "
        "an id on the hub (owner/name), or babylm-2026-strict, fineweb-edu, climbmix",
    )
    config: str | None = Field(None, description="the configuration of a data set, on the hub or laid out as there")
    split: str = Field("train", description="the split of a data set, on the hub or laid out as there")
    most: Count | None = Field(None, ge=1, description="at most so many bytes of text, whole documents, from the start of the corpus")
    field: str = Field("text", description="the column that holds the text, in data sets, JSONL, Parquet, and JSON in tar files")
    separator: str | None = Field(None, description="what separates documents within a text file (none: one document a file)")
    join: Count | None = Field(
        None, ge=1, description="where rows are lines: join them into documents of at least so many bytes (none: each row is one)"
    )
    encoding: str | None = Field(None, description="of text and JSONL files that are not UTF-8 (none: such a file is an error)")
    tokenizer: Tokenizer = Field(Tokenizer(bpe=1024), description="{bpe: entries} or {file: path}")
    packing: Literal["best-fit", "contiguous"] = Field(
        "contiguous", description="one unbroken stream; or best-fit: rows that begin with BOS and crop (much text is lost in short rows)"
    )
    buffer: Count = Field(1000, ge=1, description="documents that best-fit packing chooses from")
    document_mask: Switch = Field(False, description="attention and recurrent states stop at the start of a document")
    validation: Real = Field(0.05, gt=0, lt=0.5, description="share of the text, in whole documents")
    held_out: Real = Field(0.05, gt=0, lt=0.5, description="share of the text, in whole documents, measured but not looked at")
    training_share: Real = Field(
        1.0, gt=0, le=1, description="share of the training part that is trained on, in whole documents; what is measured stays"
    )

    @model_validator(mode="before")
    @classmethod
    def _ready(cls, given: Any) -> Any:
        return with_ready(given) if isinstance(given, dict) else given


class Mlp(Record):
    """The channel mixer; its width is one of `hidden` and `ratio`."""

    kind: Literal["swiglu", "relu2"] = "swiglu"
    hidden: Count | None = Field(None, ge=1, description="width; or give ratio")
    ratio: Real | None = Field(None, gt=0, description="width as a multiple of d_model")


class Norm(Record):
    """Every RMS norm of the stream."""

    weight: Switch = Field(True, description="a learned weight per channel")
    eps: Real = Field(1e-6, gt=0)


class Windows(Record):
    """How far back attention sees, layer by layer."""

    pattern: str = Field(
        "L", pattern="^[SL]+$", description="repeated over the layers: S short, L the whole context; the last layer is always L"
    )
    short: Count | None = Field(None, ge=1, description="keys a query may see in S, itself included")


class Init(Record):
    """Where weights start (model/init.py has the table)."""

    rule: Literal["normal", "loop2"] = Field(
        "normal", description="normal: N(0, std) on every matrix and table; loop2: as published, output projections at 0"
    )
    std: Real = Field(0.02, gt=0)


class Unfit(ValueError):
    """What is wrong with a section whose every key is right, the rule and the next step."""

    def __init__(self, what: str, rule: str, fix: str):
        super().__init__(what)
        self.what, self.rule, self.fix = what, rule, fix


class Passes(Record):
    """A number of passes that is drawn anew every training step, by one of these; measured at the middle (study/draws.py)."""

    uniform: tuple[Annotated[Count, Field(ge=1)], Annotated[Count, Field(ge=1)]] | None = Field(
        None, description="[a, b]: each of a to b as likely; measured at the middle"
    )
    poisson: Annotated[Real, Field(ge=0.5, le=255)] | None = Field(
        None, description="m: Poisson-lognormal, 1 + Poisson(exp t) with exp t of mean m; measured at m"
    )

    @model_validator(mode="after")
    def _one(self) -> Passes:
        if (self.uniform is None) == (self.poisson is None):
            what = "neither uniform nor poisson" if self.uniform is None else "both uniform and poisson"
            raise Unfit(what, "a draw is either uniform or poisson", "passes: {uniform: [1, 8]}, or passes: {poisson: 4}")
        if self.uniform and self.uniform[0] > self.uniform[1]:
            high, low = self.uniform
            what = f"uniform: [{high}, {low}] is not from the smaller to the larger number"
            raise Unfit(what, "[a, b] is from a to b", f"uniform: [{low}, {high}]")
        return self


def _map_text(value: Any) -> Any:
    """A reuse map written as a list reads like the same map written as text."""
    return f"[{','.join(map(str, value))}]" if isinstance(value, (list, tuple)) else value


class Model(Record):
    """One decoder: its inventory of layers, their shapes, and the schedule that applies them."""

    family: Literal["llama", "loop2"] = Field("llama", description="sets the defaults of the keys below")
    layers: Annotated[tuple[LayerKind, ...], BeforeValidator(layer_kinds)] = Field(
        description="how many (4), or which kinds (2 x (gdn gdn gqa))"
    )
    d_model: Count = Field(ge=1)
    heads: Count = Field(ge=1)
    kv_heads: Count | None = Field(None, ge=1, description="grouped queries; default: heads")
    head_dim: Count | None = Field(None, ge=1, description="default: d_model / heads")
    mlp: Mlp = Mlp(ratio=4)
    norm: Norm = Norm()
    positions: Literal["none", "rope", "learned", "alibi"] = "rope"
    rope_base: Real = Field(10_000.0, gt=1)
    qk_norm: Literal["none", "plain", "weight"] = Field("none", description="RMS norm of q and k: without or with a weight per channel")
    attn_gate: Literal["none", "head", "channel"] = Field(
        "none", description="a sigmoid gate on the output of attention, one a head or one a channel"
    )
    windows: Windows = Windows()
    value_embeddings: Literal["none", "alternate", "all"] = "none"
    bigram_table: Count = Field(0, ge=0, description="rows of a hashed bigram table added to the input (0: none)")
    embedding_norm: Switch = Field(False, description="x0 = rms(embedding)")
    application_scalars: Switch = Field(False, description="x = a x + b x0 before every application, a and b its own")
    softcap: Real | None = Field(None, gt=0, description="logits become c tanh(z / c)")
    tie_embeddings: Switch = Field(True, description="the head is the embedding")
    schedule: Annotated[str | None, BeforeValidator(_map_text)] = Field(
        None, description="the order in which layers run; default: each once"
    )
    passes: Annotated[Count, Field(ge=1)] | Passes | None = Field(
        None, description="the value of {r} in the schedule; or a draw of one every training step"
    )
    inject: Literal["none", "add", "linear"] = Field(
        "none", description="what a later pass of a group sees again: nothing, x = h + e (e the input), or at every pass x = W [e; h]"
    )
    h0: Literal["input", "noise"] = Field(
        "input", description="with inject linear, h before the first pass: e, or noise (drawn anew every step, fixed when measuring)"
    )
    pass_norm: Switch = Field(False, description="an RMS norm of the stream at the end of every pass of a repeated group")
    backprop: Literal["half"] | Annotated[Count, Field(ge=1)] | None = Field(
        None, description="truncated backpropagation: train through the last so many passes of a repeated group only, or half of them"
    )
    streams: Count = Field(1, ge=1, le=64, description="hyper-connections: so many residual streams, which every sublayer "
                          "learns to mix; groups.connection is their learning rate")
    tie: dict[str, str] = Field({}, description="sublayers that are those of other layers, as 9..16:attn: 1..8:attn")
    residual_scaling: Literal["none", "unique", "effective"] | Annotated[Real, Field(gt=0)] = Field(
        "none", description="scale output projections at the start by 1/sqrt(2 depth): of unique or applied layers, or of a depth given"
    )
    init: Init = Init()

    @model_validator(mode="before")
    @classmethod
    def _family(cls, given: Any) -> Any:
        return with_family(given) if isinstance(given, dict) else given


Beta = Annotated[Real, Field(ge=0, lt=1)]
"""A running mean keeps this share of itself a step: at 1 it never learns, and AdamW's correction of its start divides by 0."""


class Group(Record):
    """How one role of parameter is optimised; what is left out follows the recipe."""

    kind: Literal["adamw", "muon"] | None = None
    lr: Real | None = Field(None, ge=0)
    betas: tuple[Beta, Beta] | None = None
    eps: Real | None = Field(None, gt=0)
    weight_decay: Real | None = Field(None, ge=0)
    width_base: Count | None = Field(None, ge=1, description="multiply lr by (d_model / width_base)^-1/2")


class Muon(Record):
    """Muon and its additions (train/muon.py has the sources)."""

    momentum: Real = Field(0.95, ge=0, lt=1)
    momentum_start: Real | None = Field(None, ge=0, lt=1, description="momentum at the first step, default: no ramp")
    momentum_steps: Count = Field(300, ge=1, description="steps of the ramp")
    steps: Count = Field(5, ge=1, le=5, description="Polar Express iterations")
    second_moment: Real | None = Field(0.95, gt=0, lt=1, description="beta2 of the normalisation over the shorter dimension")
    cautious: Switch = Field(True, description="decay only where gradient and weight agree in sign")


class LrSchedule(Record):
    """The share of the learning rate over the run."""

    shape: Literal["linear", "cosine"] = "linear"
    warmup: Real = Field(0.0, ge=0, lt=1, description="share of the tokens, from 0 to the full rate")
    decay: Real = Field(0.5, ge=0, le=1, description="share of the tokens over which the rate falls, at the end")
    final: Real = Field(0.0, ge=0, le=1, description="share of the rate at the last token")


class Recipe(Record):
    """What arms are trained with: budget, batch, optimizer and its schedules."""

    tokens: Count = Field(500_000, ge=1, description="training tokens; rounded down to whole steps")
    batch: Count = Field(1024, ge=1, description="tokens a step; rounded down to whole rows")
    context: Count = Field(128, ge=1)
    micro_batch: Count | None = Field(None, ge=1, description="tokens a forward pass; changes memory, not results")
    optimizer: Literal["adamw", "muon"] = Field("muon", description="muon: Muon on matrices inside layers, AdamW on the rest")
    lr: Real = Field(0.02, gt=0)
    betas: tuple[Beta, Beta] = (0.9, 0.95)
    eps: Real = Field(1e-8, gt=0)
    weight_decay: Real = Field(0.0, ge=0)
    decay_to_zero: Switch = Field(False, description="weight decay times (1 - progress)")
    groups: dict[Role, Group] = Field({}, description="by role of parameter: what differs from the recipe")
    muon: Muon = Muon()
    lr_schedule: LrSchedule = LrSchedule()
    clip: Real | None = Field(None, gt=0, description="largest norm of the whole gradient")
    dtype: Literal["float32", "bfloat16"] = "float32"
    activation_checkpointing: Switch = Field(
        False, description="keep only the input of every application; changes memory and time, not results"
    )


class Evaluate(Record):
    """What is measured, where in training, and through which windows."""

    every: str | None = Field(
        None, description="tokens between measurements: 100k, or 100M, and every 5M from 150M to 200M; the end is always one"
    )
    windows: Literal["documents", "rows"] = Field(
        "documents", description="each document on its own, every target once; or packed rows as in training"
    )
    context: Count | None = Field(None, ge=1, description="default: the recipe's")
    stride: Count | None = Field(None, ge=1, description="new targets a window, for documents; default: half the context")
    targets: Count | None = Field(None, ge=1, description="at most this many targets of each part (whole documents or rows)")
    held_out: Literal["every", "end"] = Field("every", description="when the held-out part is measured: at every point, or at the end only")
    batch: Count = Field(16_384, ge=1, description="tokens a forward pass; changes memory, not results")


class Checkpoints(Record):
    """When the state of a run is saved, and what is kept."""

    every: str | None = Field(None, description="as in evaluate; the end is always one")
    keep: Literal["all", "last"] = Field("last", description="last: the newest two, and those at measurements")


def _measure_names(value: Any) -> Any:
    """`all`, `none` or one name stand for a list."""
    words = {"all": MEASURE_NAMES, "none": ()}
    return words.get(value.strip().lower(), (value,)) if isinstance(value, str) else value


class Gradients(Record):
    """Which training steps are looked at for the gradient of every parameter and application (train/gradients.py)."""

    every: Count = Field(50, ge=0, description="steps between those looked at, beside the first (0: none); changes no result of training")


class Measure(Record):
    """What else is measured of a run when it is trained, beside its losses (measure/all.py). No part of what a run is."""

    take: Annotated[tuple[MeasureName, ...], BeforeValidator(_measure_names)] = Field(
        MEASURE_NAMES, description="which, as [lens, heads], all or none; what a model has not, or what lacks its input, is left out"
    )
    targets: Count = Field(8_192, ge=1, description="validation targets that they are taken on, about: whole windows")
    pairs: str | None = Field(None, description="minimal pairs: blimp (on the hub), or a folder of JSONL files with pairs of sentences")
    gradients: Gradients = Gradients()


class Arm(Record):
    """One model configuration: the study's model, recipe and data with this arm's changes already merged in."""

    name: str
    note: str = ""
    model: Model
    recipe: Recipe
    data: Data
    seeds: tuple[Count, ...]
    seed_names: dict[Count, str] = Field({}, description="other names for single runs, by seed, as a source calls them")
    contingent: str | None = Field(None, description="run only when asked by name; says on what result it depends")
    run_if: str | None = Field(
        None, description="run by itself, once earlier results satisfy this condition (written as in predictions), else recorded as not run"
    )
    against: str | None = Field(None, description="the arm that this one is compared with; default: the study's reference")
    again: str | None = Field(None, description="a word that gives the arm runs of its own beside those of the same model and recipe: the "
                              "same seeds again, with other threads, micro_batch or checkpointing")  # fmt: skip


Positive = Annotated[Count, Field(ge=1)]
Widths = dict[Annotated[str, "budget"], tuple[Positive, ...]]


class Grid(Record):
    """Arms by width, number of passes and budget, spelled together (study/grid.py)."""

    prelude: Count = Field(0, ge=0, description="layers before the repeated group")
    core: Count = Field(ge=1, description="applied layers of the repeated group: core/r layers, r times")
    coda: Count = Field(0, ge=0, description="layers after it")
    r: tuple[Positive, ...] = Field(description="numbers of passes, each a divisor of core")
    flops: Widths = Field({}, description="the widths trained with each budget of training FLOPs (attention over the whole context)")
    tokens: Widths = Field({}, description="the widths trained with each budget of training tokens")


OTHERWISE = "otherwise"
"""Instead of a condition: whenever none before it holds."""


def _by_own_name(word: str) -> Callable[[Any], Any]:
    """One condition alone has the name that every outcome of its kind has."""
    return lambda value: {word: value} if isinstance(value, str) else value


def _between(value: Any) -> Any:
    """One word alone is the user's own for what is neither."""
    return {"BETWEEN" if value.strip().lower() == OTHERWISE else value: OTHERWISE} if isinstance(value, str) else value


class Prediction(Record):
    """What somebody expects, said before it is known; conditions are in the language of `ostinato.claims`, each under its own name."""

    name: str = Field("", description="default: p1, p2 and so on, in order")
    claim: str = Field("", description="in words")
    supported: Annotated[dict[str, str], BeforeValidator(_by_own_name("SUPPORTED"))] = Field(
        description="a condition, as gain(twice) >= 0.02; or several by own names, and the first that holds names the outcome"
    )
    killed: Annotated[dict[str, str], BeforeValidator(_by_own_name("KILLED"))] = Field(
        description="a condition, or several by own names; otherwise: whenever supported does not hold"
    )
    between: Annotated[dict[str, str], BeforeValidator(_between)] = Field(
        {"BETWEEN": OTHERWISE}, description="an own word for neither, or own names with conditions, the last may be: otherwise"
    )
    guess: dict[Annotated[str, "expression"], Real] = Field({}, description="numbers that are expected, by expression: {gain(twice): 0.03}")


def _numbered(predictions: tuple[Prediction, ...]) -> tuple[Prediction, ...]:
    """With the names of those that have none."""
    return tuple(one if one.name else one.model_copy(update={"name": f"p{place}"}) for place, one in enumerate(predictions, 1))


Predictions = Annotated[tuple[Prediction, ...], AfterValidator(_numbered)]


class Study(Record):
    """A whole study, resolved: every arm complete, every default filled in."""

    name: str
    question: str = ""
    about: str = ""
    source: str = ""
    ours: dict[str, str] = Field({}, description="what the source does not publish, and what we chose")
    size: str | None = None
    arms: tuple[Arm, ...]
    reference: str
    evaluate: Evaluate = Evaluate()
    checkpoints: Checkpoints = Checkpoints()
    measure: Measure = Measure()
    predictions: Predictions = Field((), description="each with what would support it and what would kill it")
    quantities: dict[str, str] = Field({}, description="expressions by name, shown with their intervals and not judged")
    warnings: tuple[str, ...] = Field((), description="what is allowed but seldom meant")
    path: str | None = Field(None, description="the file it was read from")
    given: str = Field("", description="the text of that file")
