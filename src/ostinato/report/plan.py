"""What a study costs and matches, as tables: for `ostinato plan`, the notebook and the page alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ostinato.ledger.ledger import Ledger
from ostinato.ledger.plan import Plan
from ostinato.ledger.seconds import RunSeconds
from ostinato.ledger.settings import schedule_words
from ostinato.report import numbers
from ostinato.report.grid import Grid, grid, grid_table
from ostinato.report.page import notebook
from ostinato.report.tables import Cell, Column, Row, Table, as_text, to_rich
from ostinato.study.asked import depends_on

if TYPE_CHECKING:
    from rich.console import RenderableType

CONVENTION = ("FLOPs: training, forward and backward, by the published convention, 6 × (matrices of every application + unembedding) "
              "+ 12 × heads × head size × mean allowed keys, those that a query may see. flops_per_token_trainer in the JSON is by the "
              "upstream trainer's convention: every query with a full window of keys, seen or not, and gates counted.")  # fmt: skip
MEMORY = ("Memory: an estimate of weights, gradients, optimizer states and the activations of one micro-batch; "
          "cache: keys and values of one sequence.")  # fmt: skip
UNKNOWN = "not known before the text is prepared"
MANY = 20  # arms, beyond which their sizes are said in words as well
REST = "With --full: depth, memory, cache and multiples of the reference, and in what each arm equals the one that it is compared with."


def _count(value: float | None, unit: str) -> Cell:
    return Cell(numbers.human(value), value, UNKNOWN if value is None else f"{numbers.exact(value)} {unit}")


def cost_table(plan: Plan) -> Table:
    """One row an arm: everything the ledger counts, and FLOPs as multiples of the reference's."""
    ledgers, reference = plan.ledgers, plan.study.reference
    base = next(ledger for ledger in ledgers if ledger.name == reference)
    same_tokens = len({ledger.tokens for ledger in ledgers}) == 1
    known = any(ledger.epochs is not None for ledger in ledgers)
    timed = any(plan.seconds.values())
    columns = (
        Column("arm", number=False),
        Column("schedule", "the order in which layers run", number=False, terminal=False),
        Column("parameters", "every number once"),
        Column("outside embeddings", "without embedding, head, positions, value and bigram tables", spare=3),
        Column("applied", "parameters that applications use, counted as often as they are used", terminal=False),
        Column("FLOPs a token", "training, published convention"),
        Column("times ref.", f"FLOPs a token as a multiple of {reference}'s"),
        Column("total FLOPs", "FLOPs a token × tokens", spare=2),
        Column("tokens", "training tokens, in whole steps", terminal=not same_tokens, spare=4 * same_tokens),
        Column("steps", "optimizer steps", terminal=False),
        Column("epochs", "passes over the training text", terminal=known, page=known, spare=7),
        Column("depth", "effective depth: length of the schedule in whole layers"),
        Column("layers", "unique layers: how many different layers run", spare=5),
        Column("memory", "estimate for training: weights, gradients, optimizer, activations as the recipe keeps them"),
        Column("with recomputing", "the same when only the input of each application is kept", terminal=False),
        Column("cache a token", "bytes that generation keeps for a token, summed over applications", spare=6),
        Column("a run takes", "training and measuring, on this machine as it is calibrated", terminal=timed, page=timed),
    )
    rows = tuple(
        Row((*_costs(ledger, base), _seconds(plan.seconds[ledger.name])), "reference" if ledger.name == reference else "")
        for ledger in ledgers
    )
    return Table("ledger", f"What each arm costs ({plan.study.name}, reference {reference})", columns, rows, (CONVENTION, MEMORY))


def cost_tables(plan: Plan) -> list[Table]:
    """For the page and the notebook: of a grid its compact table first, then every cost."""
    found = grid(plan)
    return [*([grid_table(found)] if found else []), cost_table(plan)]


def _costs(ledger: Ledger, base: Ledger) -> tuple[Cell, ...]:
    memory = ledger.memory
    held = memory["weights"] + memory["gradients"] + memory["optimizer"]
    ratio = ledger.flops_per_token / base.flops_per_token
    cache = ledger.cache_bytes_per_token
    return (
        Cell(ledger.name, ledger.name, ledger.arm.note),
        Cell(schedule_words(ledger.arm.model)),
        _count(ledger.params_total, "parameters"),
        _count(ledger.params_nonembedding, "parameters outside embeddings"),
        _count(ledger.params_applied, "parameters, as often as they are used"),
        _count(ledger.flops_per_token, f"FLOPs a token; by the trainer's convention {numbers.exact(ledger.flops_per_token_trainer)}"),
        Cell(numbers.times(ratio), ratio, tone="strong" if ratio == 1 and ledger is not base else ""),
        Cell(numbers.power(ledger.flops_total), ledger.flops_total, f"{numbers.exact(ledger.flops_total)} FLOPs"),
        _count(ledger.tokens, "training tokens"),
        Cell(numbers.exact(ledger.steps), ledger.steps, f"{numbers.exact(ledger.tokens_per_step)} tokens a step"),
        Cell(numbers.fixed(ledger.epochs, 2), ledger.epochs, _first_pass(ledger)),
        Cell(numbers.depth(ledger.effective_depth), ledger.effective_depth),
        Cell(str(ledger.unique_layers), ledger.unique_layers),
        Cell(numbers.size(ledger.memory_total), ledger.memory_total, _memory(memory)),
        Cell(numbers.size(held + memory["activations_checkpointed"]), held + memory["activations_checkpointed"]),
        Cell(numbers.size(cache), cache, f"and {numbers.exact(ledger.cache_bytes_fixed)} bytes whatever the length"),
    )


def _seconds(run: RunSeconds | None) -> Cell:
    if run is None:
        return Cell(numbers.NONE, None, "this machine is not calibrated for it: ostinato calibrate")
    measuring = "measuring not known before the text is prepared" if run.measuring is None else f"measuring {run.measuring:.1f} s"
    return Cell(numbers.duration(run.total), run.total, f"training {run.training:.1f} s, {measuring}, start {run.start:.1f} s")


def _first_pass(ledger: Ledger) -> str:
    if ledger.first_pass_ends is None:
        return UNKNOWN
    words = f", {numbers.exact(ledger.words)} words" if ledger.words else ""
    return f"the first pass over the text ends after {numbers.exact(ledger.first_pass_ends)} tokens{words}"


def _memory(memory: dict[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {numbers.size(value)}" for name, value in memory.items())


def always_equal(plan: Plan) -> list[str]:
    """The axes that are equal in every arm."""
    names = [axis.name for one in plan.comparisons.values() for axis in one.axes]
    equal = [set(one.equal) for one in plan.comparisons.values()]
    return [name for name in dict.fromkeys(names) if all(name in axes for axes in equal)]


def also_equal(plan: Plan) -> dict[str, list[str]]:
    """For every arm the axes that equal those of its base and do not in some other arm: what this arm is a match in."""
    everywhere = set(always_equal(plan))
    return {name: [axis for axis in one.equal if axis not in everywhere] for name, one in plan.comparisons.items()}


def matched_table(plan: Plan) -> Table:
    """One row an arm: which axes equal the reference's and which do not, in words; below, what is equal everywhere."""
    against = {one.reference for one in plan.comparisons.values()}
    base = plan.study.reference if against <= {plan.study.reference} else None
    columns = (
        Column("arm", number=False),
        Column("against", "the arm that it is compared with", number=False, terminal=base is None, page=base is None),
        Column(f"equal to {base}" if base else "equal in", number=False),
        Column("differs in", number=False),
    )
    equal = also_equal(plan)
    rows = tuple(
        Row((Cell(name, name), Cell(one.reference, one.reference), Cell(", ".join(equal[name]) or numbers.NONE),
             Cell("; ".join(map(str, one.different)) or "nothing")))
        for name, one in plan.comparisons.items()
    )  # fmt: skip
    everywhere = always_equal(plan)
    notes = (f"Equal in every {'arm' if base else 'pair'}: {', '.join(everywhere)}.",) if everywhere else ()
    matched = f"with {base}" if base else "between an arm and the one that it is compared with"
    return Table("matched", f"What is matched {matched}, and what is not", columns, rows, notes)


def application_table(index: int, ledger: Ledger) -> Table:
    """One row an application of one arm: what runs, what it uses, what it costs."""
    columns = (
        Column("application"), Column("layer"), Column("runs", number=False), Column("pass"),
        Column("window", "keys a query may see, itself included"),
        Column("parameters"), Column("of them new", "not used by an earlier application"), Column("forward FLOPs", "per token"),
        Column("cache a token", "bytes"),
    )  # fmt: skip
    rows = tuple(
        Row((Cell(str(row.index + 1), row.index), Cell(str(row.layer), row.layer), Cell("layer" if row.part == "both" else row.part),
             Cell(str(row.pass_), row.pass_), Cell(numbers.exact(row.window), row.window), _count(row.params, "parameters"),
             _count(row.params_new, "parameters"), _count(row.flops_forward, "FLOPs a token"),
             Cell(numbers.size(row.cache_bytes_per_token), row.cache_bytes_per_token)))
        for row in ledger.applications
    )  # fmt: skip
    return Table(f"applications-{index}", f"Applications of {ledger.name}", columns, rows)


def budget_line(plan: Plan) -> str:
    """Tokens, steps and batch when every arm has the same; otherwise from where to where they go. Of many arms also their sizes."""
    budgets = {(ledger.tokens, ledger.steps, ledger.tokens_per_step) for ledger in plan.ledgers}
    sizes = _span([ledger.params_total for ledger in plan.ledgers], "parameter")
    if len(budgets) > 1:
        return f"Arms have {sizes} and are trained on {_span([ledger.tokens for ledger in plan.ledgers], 'token')}."
    tokens, steps, per_step = next(iter(budgets))
    contexts = {ledger.arm.recipe.context for ledger in plan.ledgers}
    rows = f", rows of {numbers.exact(next(iter(contexts)))}" if len(contexts) == 1 else ""
    line = f"Arms have {sizes}. " if len(plan.ledgers) > MANY else ""
    line += f"Every arm: {numbers.exact(tokens)} tokens in {numbers.several(steps, 'step')} of {numbers.exact(per_step)}{rows}"
    extents = {(ledger.epochs, ledger.first_pass_ends, ledger.words) for ledger in plan.ledgers}
    epochs, ends, words = next(iter(extents))
    if len(extents) > 1 or epochs is None or ends is None:
        return line + "."
    said = f" or {numbers.exact(words)} words" if words else ""
    return f"{line}: {epochs:.2f} passes over a text of {numbers.exact(ends)} tokens{said}."


def _span(values: list[int], noun: str) -> str:
    low, high = numbers.human(min(values)), numbers.human(max(values))
    return f"{low} {noun}s" if low == high else f"{low} to {high} {noun}s"


def runs_line(plan: Plan, found: Grid | None = None) -> str:
    """How many runs there will be, and what training them costs together. Contingent arms are run only when they are named.

    found: the study as a grid, whose FLOPs are counted as its budgets are.
    """
    asked = [ledger for ledger in plan.ledgers if depends_on(ledger.arm) is None]
    seeds = {ledger.arm.seeds for ledger in asked}
    each = f", {numbers.several(len(next(iter(seeds))), 'seed')} each" if len(seeds) == 1 else ""
    named, called = (sum(1 for ledger in plan.ledgers if getattr(ledger.arm, key)) for key in ("contingent", "run_if"))
    later = f"; {numbers.several(called, 'arm')} more where what they wait for comes true" if called else ""
    later += f"; {numbers.several(named, 'contingent arm')} more when named with --arm" if named else ""
    shared = "; a run that arms share is counted once" if len(plan.runs) < sum(len(ledger.arm.seeds) for ledger in asked) else ""
    total = sum(found.flops(ledger) if found else ledger.flops_total for ledger in plan.runs)
    runs = numbers.several(len(plan.runs), "run")
    return f"{runs} ({numbers.several(len(asked), 'arm')}{each}{shared}{later}): {numbers.power(total)} FLOPs of training in all."


def seconds_line(plan: Plan) -> str:
    """How long the study takes on this machine, and how that is known; or how to find out."""
    if plan.calibration is None:
        return "How long it takes here is not known: `ostinato calibrate` measures this machine once, in one to three minutes."
    if plan.choice.seconds is None:
        formats = ", ".join(sorted({ledger.arm.recipe.dtype for ledger in plan.ledgers if plan.seconds[ledger.name] is None}))
        return f"How long it takes is not known: {plan.calibration.device} is not calibrated for products in {formats}."
    unknown = any(run and run.measuring is None for run in plan.seconds.values())
    without = ", without measuring, which is not known before the text is prepared" if unknown else ""
    words = plan.calibration.pace_words(plan.choice.threads)
    return f"About {numbers.duration(plan.choice.seconds)} for all runs, {plan.choice}{without} ({words})."


@dataclass(frozen=True, repr=False)
class PlanSheet:
    """A plan to look at: printed by rich, shown in a notebook. `rows()` gives the exact numbers.

    full: print all costs and comparisons of a grid of arms, too, and not its compact table alone.
    """

    plan: Plan
    full: bool = False

    def rows(self) -> list[dict[str, Any]]:
        """One object an arm, plain values for JSON; of a grid also N_once, N_rec and r."""
        found = grid(self.plan)
        return [row | (found.row(row.get("run_of", row["arm"])) if found else {}) for row in self.plan.rows()]

    def __repr__(self) -> str:
        return as_text(self)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[RenderableType]:
        from rich.text import Text

        plan, found = self.plan, grid(self.plan)
        if plan.study.question:
            yield Text(plan.study.question, style="italic")
            yield Text("")
        for line in (runs_line(plan, found), budget_line(plan), seconds_line(plan)):
            yield Text(line)
        yield Text("")
        if found:
            yield to_rich(grid_table(found), options.max_width)
            yield Text("")
            for note in (*found.notes, *(() if self.full else (REST,))):
                yield Text(note, style="dim")
            yield Text("")
        if self.full or not found:
            yield to_rich(cost_table(plan), options.max_width)
            yield Text("")
            for note in (CONVENTION, MEMORY):
                yield Text(note, style="dim")
            yield Text("")
            yield from self._comparisons()
        if always_equal(plan):
            yield Text(f"Equal in every arm: {', '.join(always_equal(plan))}.", style="dim")
        yield Text("")
        for warning in (*plan.study.warnings, *plan.warnings):
            yield Text.assemble(("! ", "bold yellow"), warning)

    def _comparisons(self) -> Iterator[RenderableType]:
        from rich.padding import Padding
        from rich.text import Text

        plan = self.plan
        equal = also_equal(plan)
        for name, one in plan.comparisons.items():
            against = "" if one.reference == plan.study.reference else f"  against {one.reference}"
            words = schedule_words(next(led for led in plan.ledgers if led.name == name).arm.model)
            yield Text.assemble((name, "bold"), f"  {words}{against}")
            if equal[name]:
                yield Padding(Text.assemble(("equal in ", "dim"), ", ".join(equal[name])), (0, 0, 0, 2))
            yield Padding(Text.assemble(("differs in ", "dim"), "; ".join(map(str, one.different)) or "nothing"), (0, 0, 0, 2))

    def _repr_html_(self) -> str:
        from html import escape

        warnings = "".join(f'<p class="note">! {escape(warning)}</p>' for warning in (*self.plan.study.warnings, *self.plan.warnings))
        return notebook(*cost_tables(self.plan), matched_table(self.plan)) + f'<div class="ostinato">{warnings}</div>'
