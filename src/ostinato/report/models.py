"""Models that were not trained here, beside the arms, on the page: bits per byte on the same validation documents."""

from __future__ import annotations

from collections.abc import Sequence

from ostinato.analysis import ArmResult
from ostinato.analysis.models import ModelResult, models_beside
from ostinato.analysis.paired import Paired
from ostinato.report import numbers
from ostinato.report.results import tone
from ostinato.report.section import Section
from ostinato.report.tables import Cell, Column, Row, Table
from ostinato.store import Store
from ostinato.study.records import Study

COLUMNS = (
    Column("model", "an arm of this study, or a model that was trained elsewhere", number=False),
    Column("parameters", "every number once"),
    Column("bits per byte", "of the validation documents; lower is better"),
    Column("gain", "bits per byte over the documents that both scored, on what an arm is compared with; a model: on the reference"),
    Column("documents won", "documents whose loss is smaller than there"),
)


def section(study: Study, store: Store, results: Sequence[ArmResult]) -> Section | None:
    """None where no model was measured with this study. Raises StoreError for a torn file."""
    models = models_beside(study, store, results)
    if not models:
        return None
    notes = [f"{one.name}: {one.problem}." for one in models if one.problem]
    notes.append("Models of other tokenizers read the same documents as their own tokens, each window with one BOS in front; "
                 "they were trained on other text, and for other times, than the arms.")  # fmt: skip
    return Section("models", "Models trained elsewhere", lead(models, results), tables=(table(models, results),), notes=tuple(notes))


def lead(models: Sequence[ModelResult], results: Sequence[ArmResult]) -> str:
    """The best model, and how many arms are below it."""
    best = models[0]
    arms = [result for result in results if result.sums.bits_per_byte is not None]
    below = sum(result.sums.bits_per_byte < best.bits_per_byte for result in arms) if best.bits_per_byte is not None else 0
    said = f"{best.name} needs {numbers.fixed(best.bits_per_byte)} bits per byte of this study's validation documents"
    return f"{said}; {below or 'none'} of {numbers.several(len(arms), 'arm')} need{'s' * (below < 2)} fewer."


def table(models: Sequence[ModelResult], results: Sequence[ArmResult]) -> Table:
    """Models and arms in one order, the best first."""
    rows = [(one.bits_per_byte, _model(one)) for one in models]
    rows += [(result.sums.bits_per_byte, _arm(result)) for result in results if result.tokens is not None]
    ordered = sorted(rows, key=lambda pair: (pair[0] is None, pair[0]))
    return Table("models", "Bits per byte on the same documents", COLUMNS, tuple(row for _, row in ordered))


def _model(one: ModelResult) -> Row:
    name = Cell(one.name, one.name, one.digest, "strong")
    return Row((name, _count(one.params_total), _rate(one.bits_per_byte), *_compared(one.pairing, one.problem or "")))


def _arm(result: ArmResult) -> Row:
    cells = (Cell(result.name, result.name), _count(result.ledger.params_total), _rate(result.sums.bits_per_byte),
             *_compared(result.pairing if result.against else None))  # fmt: skip
    return Row(cells, "reference" if result.reference else "")


def _compared(pairing: Paired | None, problem: str = "") -> tuple[Cell, Cell]:
    """The gain, and the documents won."""
    if pairing is None:
        return Cell("", None, problem), Cell("")
    gain = Cell(numbers.signed(pairing.gain_bits_per_byte), pairing.gain_bits_per_byte, pairing.words, tone(pairing.words))
    return gain, Cell(f"{pairing.documents_won:,} of {pairing.documents:,}", pairing.documents_won)


def _count(value: int | None) -> Cell:
    return Cell(numbers.human(value), value, numbers.exact(value))


def _rate(value: float | None) -> Cell:
    return Cell(numbers.fixed(value), value)
