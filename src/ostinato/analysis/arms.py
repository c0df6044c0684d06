"""The records of a table of results: one run, and one arm over its seeds beside the arm that it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ostinato.analysis.curves import Crossing, Line, crossing_of
from ostinato.analysis.paired import Paired
from ostinato.analysis.seeds import OverSeeds
from ostinato.analysis.sums import Sums
from ostinato.analysis.words import NATS
from ostinato.ledger import Ledger
from ostinato.study.records import Arm

NOTHING = Sums()


@dataclass(frozen=True)
class RunResult:
    """One arm with one seed. state: missing (never begun), not asked (contingent), new, running, stopped, failed, done.

    tokens: the last measured point (None: none yet); final: that it is the end of training. sums: of that point. seconds: of training.
    peak_bytes: the most memory that a training step held. tokens_per_s: the median over its steps. None where it is not known.
    """

    seed: int
    run: str | None
    state: str
    error: str | None
    tokens: int | None
    final: bool
    sums: Sums | None
    target_id: str | None
    seconds: float | None
    peak_bytes: int | None = None
    tokens_per_s: float | None = None

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {**vars(self), "sums": self.sums and {**vars(self.sums), "nats_per_token": self.sums.nats_per_token}}


@dataclass(frozen=True)
class ArmResult:
    """One arm over its seeds. against: the arm that it is compared with, None for the study's reference.

    tokens: the point that nats, bits_per_byte and perplexity are of, over `seeds_used` (sums of all of them, one division); final: that
    it is the end of training. gain_tokens and gain_final: the same for the comparison, paired by seed: `pairing` over
    documents on losses averaged over seeds, `seeds` over seeds. problem: why there is no gain. course: by seed, the gain at every point
    that both arms have measured, none when their budgets differ. cost_ratios: what it costs, times what the other arm costs.
    floors: nats of simple models of the training stream on the same targets. seconds and tokens_per_s: of training, means over the runs
    used; peak_bytes: the most of them.
    """

    arm: Arm
    against: str | None
    runs: tuple[RunResult, ...]
    ledger: Ledger
    part: str
    seeds_used: tuple[int, ...] = ()
    tokens: int | None = None
    final: bool = False
    sums: Sums = NOTHING
    targets: int = 0
    windows: str = ""
    gain_tokens: int | None = None
    gain_final: bool = False
    pairing: Paired | None = None
    seeds: OverSeeds | None = None
    problem: str | None = None
    course: Mapping[int, Line] = field(default_factory=dict)
    cost_ratios: Mapping[str, float] = field(default_factory=dict)
    floors: Mapping[str, float] | None = None
    seconds: float | None = None
    peak_bytes: int | None = None
    tokens_per_s: float | None = None

    @property
    def name(self) -> str:
        return self.arm.name

    @property
    def reference(self) -> bool:
        """Whether it is the study's reference, which is compared with no other."""
        return self.against is None

    @property
    def unit(self) -> str:
        """The unit of the gain."""
        return self.pairing.unit if self.pairing else NATS

    @property
    def crossing(self) -> Crossing | None:
        """Where it overtakes the arm that it is compared with, or falls behind, during training."""
        return crossing_of(self.course, self.ledger.first_pass_ends)

    @property
    def below_floors(self) -> bool | None:
        """Whether the arm is below every floor; None while either is unknown."""
        nats = self.sums.nats_per_token
        return None if nats is None or not self.floors else all(nats < floor for floor in self.floors.values())

    @property
    def words(self) -> str:
        """The comparison in words."""
        if self.reference:
            return "the reference"
        return self.seeds.words if self.seeds else self.problem or "not measured yet"

    @property
    def caution(self) -> str:
        """What the number of seeds, and runs that failed or are not finished, take from the comparison."""
        parts = [self.seeds.caution] if self.seeds else []
        if self.seeds and not self.gain_final:
            parts.append(f"at {self.gain_tokens:,} of {self.ledger.tokens:,} tokens")
        for said, states in (("failed", ("failed",)), ("not finished", ("new", "running", "stopped")), ("not begun", ("missing",))):
            seeds = self.seeds_in(*states)
            if seeds:
                parts.append(f"{said}: seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}")
        return "; ".join(parts)

    def seeds_in(self, *states: str) -> list[int]:
        """The seeds whose run is in one of these states."""
        return [run.seed for run in self.runs if run.state in states]

    def record(self) -> dict[str, Any]:
        """As JSON types: one flat object for scripts."""
        pairing, seeds = self.pairing, self.seeds
        over_documents, crossed = pairing and pairing.record(), self.crossing
        windowed = pairing if pairing and pairing.unit == NATS else None
        return {
            "arm": self.name, "note": self.arm.note, "contingent": self.arm.contingent, "reference": self.reference,
            "against": self.against, "part": self.part,
            "seeds": list(self.arm.seeds), "seeds_done": self.seeds_in("done"), "seeds_failed": self.seeds_in("failed"),
            "seeds_missing": self.seeds_in("missing", "not asked"), "seeds_unfinished": self.seeds_in("new", "running", "stopped"),
            "runs": [run.record() for run in self.runs], "seeds_used": list(self.seeds_used), "tokens": self.tokens, "final": self.final,
            "nats": self.sums.nats_per_token, "bits_per_byte": self.sums.bits_per_byte, "perplexity": self.sums.perplexity,
            "nats_by_seed": {str(run.seed): run.sums.nats_per_token for run in self.runs if run.sums and run.seed in self.seeds_used},
            "targets": self.targets, "windows": self.windows, "gain": seeds and seeds.mean,
            "gain_unit": seeds and seeds.unit, "gain_sd": seeds and seeds.sd,
            "gain_by_seed": seeds and seeds.record()["gains"], "gain_interval_seeds": seeds and seeds.record()["interval"],
            "gain_interval_documents": over_documents and over_documents["interval"],
            "gain_tokens": self.gain_tokens,
            "gain_final": self.gain_final,
            "gain_bits_per_byte": pairing and pairing.gain_bits_per_byte,
            "documents": pairing and pairing.documents, "documents_won": pairing and pairing.documents_won,
            "windows_compared": windowed and windowed.windows, "windows_won": windowed and windowed.windows_won,
            "window": windowed and windowed.window, "crossing": crossed and crossed.record(),
            "words": self.words, "caution": self.caution, "problem": self.problem,
            "floors": dict(self.floors) if self.floors else None, "below_floors": self.below_floors,
            "params_total": self.ledger.params_total, "params_nonembedding": self.ledger.params_nonembedding,
            "flops_per_token": self.ledger.flops_per_token, "flops_total": self.ledger.flops_total,
            "tokens_planned": self.ledger.tokens, "effective_depth": self.ledger.effective_depth, "seconds": self.seconds,
            "peak_bytes": self.peak_bytes, "tokens_per_s": self.tokens_per_s, "memory_estimate": self.ledger.memory_total,
            "cache_bytes_per_token": self.ledger.cache_bytes_per_token, "cache_bytes_fixed": self.ledger.cache_bytes_fixed,
            "first_pass_ends": self.ledger.first_pass_ends, "epochs": self.ledger.epochs, "cost_ratios": dict(self.cost_ratios),
        }  # fmt: skip
