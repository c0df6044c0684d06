"""Measures that were taken of trained models and stored as tables (`store.measures`): lens, depth at test time, minimal pairs.

The runs of an arm are those of the furthest point that they share (`analysis.measured.newest`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ostinato.analysis.applications import after
from ostinato.analysis.minimal_pairs import outcomes, pair_scores
from ostinato.analysis.words import NATS
from ostinato.judge.estimable import NotEstimable
from ostinato.judge.reading import DOCUMENT, Losses
from ostinato.judge.value import Value, over_units, paradigm_keys
from ostinato.store import RunFolder
from ostinato.store.measures import Measure

Options = Mapping[str, str]
Runs = Mapping[int, tuple[RunFolder, Measure]]
"""By seed, one or more."""


def lens(losses: Losses, runs: Runs, options: Options) -> Value:
    """Nats a target if the head read the stream after an application, counted from 0 as the lens stores it. Raises NotEstimable."""
    return _of_targets(losses, runs, options, after(int(options["application"])))


def depth(losses: Losses, runs: Runs, options: Options) -> Value:
    """Nats a target with another number of passes at test time. Raises NotEstimable."""
    return _of_targets(losses, runs, options, f"nats_{int(options['passes'])}")


def _of_targets(losses: Losses, runs: Runs, options: Options, column: str) -> Value:
    folder, first = next(iter(runs.values()))
    target_id, data = first.settings["target_id"], folder.resolved().get("data_fingerprint", "")
    text, nats, wanted = losses.text(target_id), {}, None
    for seed, (_, measure) in runs.items():
        table = measure.table()
        if column not in table.column_names:
            known = ", ".join(one for one in table.column_names if one.startswith(column.rstrip("0123456789")))
            raise NotEstimable(f"no {column} is measured, of {known}")
        target = table["target"].to_numpy()
        if wanted is None:
            within = np.zeros(len(text.place), bool)
            within[losses.members(options.get("class"), target_id, data)] = True
            wanted = target
        elif not np.array_equal(target, wanted):
            raise NotEstimable("its seeds were measured on different targets")
        nats[seed] = table[column].to_numpy().astype(np.float64)[within[target]]
    place, number = text.place[wanted[within[wanted]]], len(text.keys)
    counts = np.bincount(place, minlength=number)
    held = np.flatnonzero(counts)
    sums = np.bincount(place, np.mean(list(nats.values()), axis=0), number)
    seeds = {seed: float(values.mean()) for seed, values in nats.items()} if len(place) else {}
    return over_units(text.keys[held], sums[held], counts[held], seeds, NATS, DOCUMENT)


def pairs(runs: Runs, options: Options) -> Value:
    """The macro mean accuracy over paradigms (the unit), all or those of a field or term; of one paradigm over its pairs, each a unit."""
    convention = options.get("convention", "bos")
    tables = {seed: measure.table() for seed, (_, measure) in runs.items()}
    first = next(iter(tables.values()))
    paradigm = np.array(first["paradigm"].to_pylist(), dtype=object)
    chosen = np.ones(len(paradigm), bool)
    for name in ("paradigm", "field", "term"):
        if name in options:
            chosen &= np.array(first[name].to_pylist(), dtype=object) == options[name]
    if not chosen.any():
        asked = ", ".join(f"{name} {options[name]}" for name in ("paradigm", "field", "term") if name in options)
        raise NotEstimable(f"no minimal pair of {asked}" if asked else "no minimal pair is stored")
    names = set(paradigm[chosen])
    pair_scores(list(tables.values()), convention)  # refuses seeds on other pairs
    if "paradigm" in options:
        found = {seed: outcomes(table, convention)[chosen] for seed, table in tables.items()}
        counted = ~np.isnan(next(iter(found.values())))
        keys = paradigm_keys(f"{options['paradigm']} {pair}" for pair in first["pair"].to_numpy()[chosen][counted])
        seeds = {seed: float(values[counted].mean()) for seed, values in found.items()} if counted.any() else {}
        mean = np.mean([values[counted] for values in found.values()], axis=0)
        return over_units(keys, mean, np.ones(len(keys)), seeds, "of pairs", "minimal pair")
    by_seed = {seed: pair_scores([table], convention).paradigms for seed, table in tables.items()}
    known = sorted(name for name in names if all(scores[name].accuracy is not None for scores in by_seed.values()))
    accuracy = {seed: np.array([scores[name].accuracy for name in known]) for seed, scores in by_seed.items()}
    seeds = {seed: float(values.mean()) for seed, values in accuracy.items()} if known else {}
    mean = np.mean(list(accuracy.values()), axis=0)
    return over_units(paradigm_keys(known), mean, np.ones(len(known)), seeds, "of pairs", "paradigm")

