"""Everything that is said of a table of runs: the fit, its intervals, laws compared, treatments, and what loops are worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ostinato.errors import FitError
from ostinato.scaling.cells import Cells, cells
from ostinato.scaling.fit import Fit, fit_law, named
from ostinato.scaling.identify import Span, refuse, refuse_early, spans
from ostinato.scaling.intervals import RESAMPLES, Profile, bootstrap, percentiles, profile
from ostinato.scaling.law import PHI
from ostinato.scaling.nested import Law, compare
from ostinato.scaling.table import RunTable
from ostinato.scaling.treatments import Treatment, compare_treatment, split, told_without_phi

FAR, FAR_LEAST = 6.0, 0.01
"""An outlier's residual is beyond so many standard deviations, and beyond 1% of the loss."""


@dataclass(frozen=True)
class Findings:
    """table: the base's runs.  resamples: theta of the block bootstrap for parameters and tokens, (200, 6).  untold: treatments without
    a verdict, by name, and why."""

    table: RunTable
    fit: Fit
    profile: Profile
    cells: Cells
    resamples: np.ndarray
    treatments: tuple[Treatment, ...] = ()
    untold: Mapping[str, str] = field(default_factory=dict)

    @property
    def phi(self) -> float:
        return self.fit.phi

    @property
    def phi_interval(self) -> tuple[float, float]:
        """95% by profile likelihood."""
        return self.profile.low, self.profile.high

    @property
    def phi_bootstrap(self) -> tuple[float, float]:
        """95% by percentiles of the block bootstrap over cells."""
        return percentiles(self.resamples[:, PHI])

    @cached_property
    def laws(self) -> list[Law]:
        """phi = 0, phi = 1, phi free."""
        return compare(self.fit, self.cells)

    @property
    def spans(self) -> list[Span]:
        return spans(self.table, self.fit)

    @property
    def outliers(self) -> np.ndarray:
        """Rows that lie far from the law, which Huber's error keeps from pulling it, by size."""
        size = np.abs(self.fit.residuals)
        found = np.flatnonzero(size > max(FAR * self.fit.spread, FAR_LEAST))
        return found[np.argsort(-size[found])]

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """95% of the block bootstrap, of what was fitted, by name."""
        each = [named(theta) for theta in self.resamples]
        return {name: percentiles(np.array([one[name] for one in each])) for name in each[0] if name not in self.fit.held}

    def residuals_by(self, name: str, groups: int = 4) -> list[tuple[str, int, float, float]]:
        """By r, N (unique parameters) or D: the group, its rows, the median residual and its root mean square (of log loss)."""
        values = {"r": self.table.r, "N": self.table.unique, "D": self.table.D}[name]
        distinct = np.unique(values)
        if len(distinct) <= 2 * groups and name == "r":
            sets = [(f"{value:g}", values == value) for value in distinct]
        else:
            edges = np.unique(np.quantile(values, np.linspace(0, 1, groups + 1)))
            of = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, max(len(edges) - 2, 0))
            sets = [(f"{values[of == at].min():.3g} to {values[of == at].max():.3g}", of == at) for at in np.unique(of)]
        residuals = self.fit.residuals
        return [
            (words, int(mask.sum()), float(np.median(residuals[mask])), float(np.sqrt((residuals[mask] ** 2).mean())))
            for words, mask in sets
        ]

    def record(self) -> dict[str, Any]:
        """As JSON types: `phi` and `phi_interval` first."""
        from ostinato.scaling.worth import worth

        values, table = self.fit.parameters, self.table
        return {
            "phi": self.phi, "phi_interval": list(self.phi_interval), "phi_interval_method": "profile likelihood, 95%",
            "phi_bootstrap": list(self.phi_bootstrap), "phi_bootstrap_method": f"{RESAMPLES} resamples of {len(self.cells)} cells "
            f"({self.cells.by}, r), percentiles, 95%", **{name: values[name] for name in ("E", "A", "alpha", "B", "beta")},
            "intervals": {name: list(span) for name, span in self.intervals.items()}, "stated": dict(self.fit.held),
            "objective": self.fit.value, "starts": self.fit.starts, "starts_agreeing": self.fit.agreeing,
            "rows": len(table), "source": table.source, "unit": table.unit, "residual_sd": self.fit.spread,
            "spans": {one.name: {"span": one.span, "values": one.values} for one in self.spans},
            "outliers": [{"row": table.name(at), "residual": float(self.fit.residuals[at])} for at in self.outliers],
            "notes": list(table.notes), "warnings": list(table.warnings),
            "laws": [{"law": one.name, "phi": one.fit.phi, "r2": one.r2, "left_out_rms": one.left_out, "left_out_r2": one.left_out_r2,
                      "aic": one.aic, "bic": one.bic} for one in self.laws],
            "residuals": {name: [dict(zip(("group", "rows", "median", "rms"), one, strict=True)) for one in self.residuals_by(name)]
                          for name in ("r", "N", "D")},
            "treatments": [{**vars(one)} for one in self.treatments], "treatments_untold": dict(self.untold),
            "worth": worth(self).record(),
        }  # fmt: skip


def analyse(table: RunTable, held: Mapping[str, float] | None = None, base: str | None = None) -> Findings:
    """Fit the law to a table of runs and say what it tells.

    held: E (in the table's unit), alpha, beta that are stated instead of fitted.  base: the treatment that others are compared with.
    Raises FitError where the table cannot tell phi, with what it is too narrow in.
    """
    from ostinato.scaling.table import UNITS

    held = {name: value * UNITS[table.unit] if name == "E" else value for name, value in (held or {}).items()}
    own, others = split(table, base)
    refuse_early(own, held)
    fit = fit_law(own.rows, held)
    curve = profile(fit)
    refuse(own, fit, curve, told_without_phi(own, others))
    groups = cells(own)
    resamples = fit.rows.outside(bootstrap(fit, groups))
    compared, untold = [], {}
    for name, other in others.items():
        try:
            compared.append(compare_treatment(own, fit, other))
        except FitError as error:
            untold[name or "unnamed"] = error.what
    return Findings(own, fit, curve, groups, resamples, tuple(compared), untold)
