"""Everything that is said of a table of runs: the fit, its intervals, laws compared, treatments, and what loops are worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ostinato.errors import FitError
from ostinato.scaling.cells import Cells, cells
from ostinato.scaling.fit import HOLDABLE, Fit, fit_law, named
from ostinato.scaling.identify import Span, refuse, refuse_early, spans
from ostinato.scaling.intervals import RESAMPLES, Profile, bootstrap, combined, error_scale, percentiles, profile
from ostinato.scaling.law import PHI
from ostinato.scaling.nested import Law, compare
from ostinato.scaling.solve import bounds
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
        """95% by profile likelihood, wider where resampled cells are much wider (`intervals.combined`)."""
        return self._interval[:2]

    @cached_property
    def _interval(self) -> tuple[float, float, str]:
        return combined(self.profile, self.resamples[:, PHI])

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

    @cached_property
    def contradicted(self) -> bool:
        """Whether the runs by themselves rule out what is stated: at 99%, by the profile's statistic over all of it at once."""
        from scipy.stats import f as fisher

        n, held = len(self.table), len(self.fit.held)
        if not held or n <= self.fit.free + held:
            return False
        free = fit_law(self.table.rows)
        h, s = error_scale(free)
        return bool(2 * (self.fit.value - free.value) * h / s > held * fisher.ppf(0.99, held, n - free.free))

    @property
    def at_bound(self) -> tuple[str, ...]:
        """What was fitted and ended at a bound: E at nothing, a power at 0 or 3."""
        low, high = bounds(self.fit.rows)
        near = (np.abs(self.fit.theta - low) < 1e-6) | (np.abs(self.fit.theta - high) < 1e-6)
        return tuple(name for name, at in HOLDABLE.items() if near[at] and name not in self.fit.held)

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
            "phi": self.phi, "phi_interval": list(self.phi_interval), "phi_interval_method": f"95%, {self._interval[2]}",
            "phi_profile": [self.profile.low, self.profile.high],
            "phi_bootstrap": list(self.phi_bootstrap), "phi_bootstrap_method": f"{RESAMPLES} resamples of {len(self.cells)} cells "
            f"({self.cells.by}, r), percentiles, 95%", **{name: values[name] for name in ("E", "A", "alpha", "B", "beta")},
            "intervals_over_cells": {name: list(span) for name, span in self.intervals.items()},
            "at_bound": list(self.at_bound), "contradicted": self.contradicted, "stated": dict(self.fit.held),
            "objective": self.fit.value, "starts": self.fit.starts, "starts_agreeing": self.fit.agreeing,
            "rows": len(table), "source": table.source, "unit": "nats", "losses_given_in": table.unit, "residual_sd": self.fit.spread,
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

    held: E (nats a token), alpha, beta that are stated instead of fitted.  base: the treatment that others are compared with.
    Raises FitError where the table does not identify phi, with what it is too narrow in.
    """
    held = dict(held or {})
    own, others = split(table, base)
    refuse_early(own, held, others)
    fit = fit_law(own.rows, held)
    curve, groups = profile(fit), cells(own)
    resamples = fit.rows.outside(bootstrap(fit, groups, curve.ends))
    refuse(own, fit, curve, combined(curve, resamples[:, PHI])[:2], lambda: told_without_phi(own, others))
    compared, untold = [], {}
    for name, other in others.items():
        try:
            compared.append(compare_treatment(own, fit, other))
        except FitError as error:
            untold[name or "unnamed"] = f"{error.what} (asked for: {error.rule}; {error.fix})"
    return Findings(own, fit, curve, groups, resamples, tuple(compared), untold)
