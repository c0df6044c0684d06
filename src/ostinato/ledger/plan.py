"""A study's plan: the ledger of every arm, what is matched against the reference arm, and what could confound the comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ostinato.data.extent import Extent, extent
from ostinato.ledger.account import account
from ostinato.ledger.compare import Comparison, compare
from ostinato.ledger.confounds import confounds
from ostinato.ledger.flops import CONVENTIONS
from ostinato.ledger.ledger import Ledger
from ostinato.study.derive import vocab
from ostinato.study.records import Data, Study


@dataclass(frozen=True)
class Plan:
    """All that is known of a study before it runs."""

    study: Study
    ledgers: tuple[Ledger, ...]
    comparisons: dict[str, Comparison]
    warnings: tuple[str, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Plain values for JSON, one object an arm, and one more for each run of it that has a name of its own."""
        rows = []
        for ledger in self.ledgers:
            comparison = self.comparisons.get(ledger.name)
            said = {
                "note": ledger.arm.note,
                "contingent": ledger.arm.contingent,
                "seeds": list(ledger.arm.seeds),
                "memory_total": ledger.memory_total,
                "flops_conventions": CONVENTIONS,
                "reference": comparison.reference if comparison else self.study.reference,
                "equal": list(comparison.equal) if comparison else [],
                "different": [str(axis) for axis in comparison.different] if comparison else [],
            }
            row = {**ledger.row(), **said}
            rows.append(row)
            for seed, name in ledger.arm.seed_names.items():
                rows.append({**row, "arm": name, "run_of": ledger.name, "seeds": [seed]})
        return rows


def plan(study: Study) -> Plan:
    """Draw up the plan of `study`. Words, epochs and the end of the first pass are known where its text is prepared already."""
    known: dict[tuple[Data, int, int], Extent | None] = {}
    ledgers = []
    for arm in study.arms:
        key = (arm.data, arm.recipe.context, arm.recipe.batch)
        if key not in known:
            known[key] = extent(arm)
        size = known[key]
        ledgers.append(account(arm, vocab(arm.data.tokenizer), size and size.tokens, size and size.words))
    return Plan(study, tuple(ledgers), compare(ledgers, study.reference), tuple(confounds(ledgers)))
