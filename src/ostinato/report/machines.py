"""The runs of a study and the machines they ran on, as tables: every run asked for is a row, whatever became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ostinato.analysis import ArmResult, RunResult
from ostinato.report import numbers
from ostinato.report.results import STATE_WORDS
from ostinato.report.tables import Cell, Column, Row, Table, Tone
from ostinato.store import RunFolder
from ostinato.study.asked import depends_on

_TONES: dict[str, Tone] = {"failed": "worse", "stopped": "warn", "running": "warn", "done": ""}


def run_table(results: Sequence[ArmResult], folders: Mapping[tuple[str, int], RunFolder]) -> Table:
    """One row an arm and seed: state, how far it came, its last validation loss, time, and why it failed."""
    said = any(run.error or run.state in ("stopped", "not asked") for result in results for run in result.runs)
    columns = (
        Column("arm", number=False), Column("seed"), Column("run", "beginning of its fingerprint, which names its folder", number=False),
        Column("state", number=False), Column("tokens", "trained on at the last measured point"), Column("of"), Column("measured points"),
        Column("nats a token", "validation, at the last measured point"), Column("training time", "steps only, without measuring"),
        Column("tokens a second", "trained tokens by training time"), Column("what is known", number=False, page=said),
    )  # fmt: skip
    rows = []
    for result in results:
        for run in result.runs:
            rows.append(_run_row(result, run, folders.get((result.name, run.seed))))
    return Table("runs", "Every run that the study asks for", columns, tuple(rows))


def _run_row(result: ArmResult, run: RunResult, folder: RunFolder | None) -> Row:
    name = result.arm.seed_names.get(run.seed)
    begun = folder is not None and folder.exists()
    points = [tokens for part, tokens in folder.measured() if part == result.part] if folder and begun else []
    trained = folder.progress().get("tokens") if folder and begun else None
    reached = trained if isinstance(trained, int | float) else run.tokens
    nats = run.sums.nats_per_token if run.sums else None
    speed = reached / run.seconds if run.seconds and reached else None
    cells = (
        Cell(result.name + (f" ({name})" if name else ""), result.name),
        Cell(str(run.seed), run.seed),
        Cell(run.run[:12] if run.run and begun else numbers.NONE, run.run),
        Cell(STATE_WORDS.get(run.state, run.state), run.state, tone=_TONES.get(run.state, "muted")),
        Cell(numbers.exact(run.tokens), run.tokens),
        Cell(numbers.exact(result.ledger.tokens), result.ledger.tokens),
        Cell(str(len(points)), len(points)),
        Cell(numbers.fixed(nats), nats, "" if nats is None else f"{nats!r}"),
        Cell(numbers.duration(run.seconds), run.seconds),
        Cell(numbers.human(speed), speed),
        Cell(_known(result, run, folder if begun else None)),
    )
    return Row(cells, "missing" if not begun else "")


def _known(result: ArmResult, run: RunResult, folder: RunFolder | None) -> str:
    if run.state == "not asked":
        return f"depends on: {depends_on(result.arm)}"
    if run.error:
        return run.error
    return "killed; `ostinato run` goes on from its last checkpoint" if folder and folder.status().get("killed") else ""


def machines(folders: Mapping[tuple[str, int], RunFolder]) -> list[dict[str, Any]]:
    """The different environments that runs worked in, the most common first: {"runs": [...], "facts": {name: value}}."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for (arm, seed), folder in folders.items():
        if not folder.exists():
            continue
        record = folder.record()
        sessions = [session.get("environment") or {} for session in record.get("sessions") or []] or [record.get("environment") or {}]
        for facts in dict.fromkeys(tuple(_facts(environment).items()) for environment in sessions):
            found.setdefault(facts, []).append(f"{arm} seed {seed}")
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[1]))
    return [{"runs": runs, "facts": dict(facts)} for facts, runs in ordered]


def _facts(environment: Mapping[str, Any]) -> dict[str, str]:
    """What a result may depend on, in words; the command and folder are left to the store, being private to a machine."""
    versions, hardware, git = (environment.get(key) or {} for key in ("versions", "hardware", "git"))
    facts = {"versions": ", ".join(f"{name} {value}" for name, value in versions.items() if value and name != "ostinato_source")}
    if versions.get("ostinato_source"):
        facts["source of ostinato"] = f"sha256 {versions['ostinato_source']}…"
    gpus = hardware.get("gpus") or []
    processor = [
        hardware.get("cpu"),
        f"{hardware['cores']} cores" if hardware.get("cores") else None,
        numbers.size(hardware["memory_bytes"]) if hardware.get("memory_bytes") else None,
    ]
    facts["processor"] = ", ".join(str(part) for part in processor if part)
    facts["GPUs"] = "; ".join(f"{gpu.get('name')}, {gpu.get('memory')}, driver {gpu.get('driver')}" for gpu in gpus) or "none"
    facts["system"] = str(hardware.get("system") or "")
    if git.get("commit"):
        state = {True: ", with changes not committed", False: ", clean"}.get(git.get("dirty"), "")
        facts["git"] = f"{git['commit']}{' on ' + git['branch'] if git.get('branch') else ''}{state}"
    else:
        facts["git"] = "not a git repository"
    return {name: value for name, value in facts.items() if value}
