"""`Study` and friends: everything the command line does, from Python and in a notebook.

    study = ostinato.Study.load("quickstart")
    study.plan()        # what every arm costs, what is matched
    study.register()    # seal its predictions
    study.run()         # train and measure what is due
    study.results()     # the paired table
    study.judge()       # what became of the predictions
    study.report()      # one HTML page

`new`, `draw_schedule`, `list_studies`, `list_runs`, `fit`, `check`, `check_registration`, `judge_replay`, `report_replay`, `take_measures`,
`generate`, `export_run` and `query` are the other verbs, as functions of the package: `ostinato.query("select …")`. Loading, planning,
registering, judging and reporting import no torch; what runs a model does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.errors import StoreError, StudyError

if TYPE_CHECKING:
    from rich.console import Console

    from ostinato.launch import Outcome
    from ostinato.launch.calibrate import Calibrated
    from ostinato.launch.measuring import Measured
    from ostinato.measure.check import Check
    from ostinato.report.fit_sheet import FitSheet
    from ostinato.report.judgement import JudgementSheet
    from ostinato.report.plan import PlanSheet
    from ostinato.report.results import Results
    from ostinato.store import Answer, RunFolder, Store
    from ostinato.store.registrations import Registration
    from ostinato.store.seals import Checked
    from ostinato.study.records import Arm, Measure
    from ostinato.study.records import Study as Record


@dataclass(frozen=True)
class Drawing:
    """A schedule as text for a terminal and as SVG for a page or a notebook."""

    text: str
    svg: str

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.svg


class Drawings(dict[str, Drawing]):
    """Drawings by arm, shown under the names of the arms."""

    def __str__(self) -> str:
        return "\n\n".join(f"{arm}\n{drawing}" for arm, drawing in self.items())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        return "".join(f"<h4>{escape(arm)}</h4>{drawing.svg}" for arm, drawing in self.items())


def open_store(path: Path | str | None = None) -> Store:
    """The store at `path`, else at $OSTINATO_STORE, else at ./ostinato-runs."""
    from ostinato.store import Store

    return Store(Path(path or os.environ.get("OSTINATO_STORE") or "ostinato-runs"))


class Study:
    """A study that is loaded: its record (`.record`) and the store that its runs go to (`.store`)."""

    def __init__(self, record: Record, source: str, store: Path | str | None = None):
        self.record, self.source = record, source
        self._store_path = store

    @classmethod
    def load(cls, source: str | Path, size: str | None = None, store: Path | str | None = None) -> Study:
        """Read a study file, or a shipped study by name. Raises StudyError with section, key and line."""
        from ostinato.study import load_study

        return cls(load_study(source, size), str(source), store)

    def __repr__(self) -> str:
        return f"Study({self.record.name!r}, {len(self.record.arms)} arms, reference {self.record.reference!r})"

    @property
    def store(self) -> Store:
        """Where the runs are; opened when first asked for."""
        return open_store(self._store_path)

    def arm(self, name: str) -> Arm:
        """One arm by name. Raises StudyError with the nearest right name."""
        from ostinato.study.asked import asked_arms

        return asked_arms(self.record.arms, [name])[0]

    def plan(self) -> PlanSheet:
        """What every arm costs, what is matched, what could confound the comparison; seconds, once this machine is calibrated."""
        from ostinato.ledger.plan import plan
        from ostinato.report.plan import PlanSheet
        from ostinato.store.calibration import found_calibration

        return PlanSheet(plan(self.record, found_calibration()))

    def draw(self, arms: Iterable[str] | None = None) -> Drawings:
        """The schedules drawn, by arm: a dictionary that shows itself."""
        chosen = [self.arm(name) for name in arms] if arms else self.record.arms
        return Drawings({arm.name: _draw(arm) for arm in chosen})

    def register(self) -> Registration:
        """Seal the study with its predictions; where nothing has changed since the newest registration, that one, `found`.

        Raises StudyError for a study without predictions, StoreError where a registration that is there is torn.
        """
        from ostinato.judge.register import register

        return register(self.record, self.store)

    def unregistered(self) -> str:
        """Why registering is the next step, in words; "" for a study without predictions, and for one that is sealed as it is."""
        from ostinato.judge.register import unregistered

        return unregistered(self.record, self.store)

    def judge(self) -> JudgementSheet:
        """The verdict on every prediction as it was sealed; the study's log says that it was judged, and held-out gains are shown."""
        from ostinato.judge.judge import judge
        from ostinato.report.judgement import JudgementSheet

        return JudgementSheet(judge(self.record, self.store), self.source)

    def run(
        self,
        arms: Iterable[str] | None = None,
        seeds: Iterable[int] | None = None,
        jobs: int | None = None,
        threads: int | None = None,
        device: str = "auto",
        compiled: bool | None = None,
        track: Iterable[str] | None = None,
        console: Console | None = None,
    ) -> Outcome:
        """Train and measure every run that is due; runs that are done are found and kept. Ctrl-C saves and stops.

        jobs, threads: runs at a time, and threads of each (None: as the study ends first, by the calibration of this machine).
        compiled: through torch.compile (None: where it pays).
        track: also draw the curves with these trackers, as ["wandb", "trackio"] (None: those of $OSTINATO_TRACK).
        """
        from ostinato.launch import run_study

        chosen = {"arms": list(arms) if arms else None, "seeds": list(seeds) if seeds else None}
        return run_study(self.record, self.store, **chosen, jobs=jobs, threads=threads, device=device, compiled=compiled, track=track,
                         console=console)  # fmt: skip

    def results(self, part: str = "validation") -> Results:
        """The paired table of what has been measured so far; failed and missing runs are in it.

        part: "held_out" shows the part that no choice should rest on, and the study's log says that it was shown.
        """
        from ostinato.report.results import Results

        return Results(self.record, self.store, part)

    def report(self, out: Path | str | None = None) -> Path:
        """Write the report page and return its path."""
        from ostinato.report import write_report

        return write_report(self.record, self.store, Path(out) if out else None)


def calibrate(device: str = "auto", compiled: bool = False, console: Console | None = None) -> Calibrated:
    """Measure this machine with training steps of small models, in one to three minutes, and keep the result in the cache folder.

    compiled: also how long compiling takes and what it saves, in minutes. Raises TrainingError when a probe fails.
    """
    from ostinato.launch.calibrate import calibrate as measure
    from ostinato.launch.progress import calibrating

    with calibrating(console) as progress:
        return measure(device, compiled, progress=progress)


def _draw(arm: Arm) -> Drawing:
    from ostinato.schedule import draw_svg, draw_text
    from ostinato.study import arm_applications, tied_to

    picture = (arm_applications(arm.model), len(arm.model.layers), arm.model.layers, tied_to(arm.model), arm.model.inject)
    return Drawing(draw_text(*picture), draw_svg(*picture))


def draw_schedule(text: str, layers: int, passes: int | None = None) -> Drawing:
    """Draw a schedule given as text over `layers` layers. Raises ScheduleError with the column."""
    from ostinato.schedule import draw_svg, draw_text, parse

    picture = (parse(text, layers).applications(passes), layers, ("gqa",) * layers, {})
    return Drawing(draw_text(*picture), draw_svg(*picture))


def new(path: Path | str, force: bool = False) -> Path:
    """Write a commented study file to start from, and return its path. Raises StudyError for a folder, and for a file unless `force`."""
    from ostinato.files import write_atomic
    from ostinato.study import template

    path = Path(path)
    if path.is_dir():
        raise StudyError(f"{path} is a folder", "a study is one YAML file", f"ostinato new {path / 'my-study.yaml'}")
    if path.exists() and not force:
        raise StudyError(f"{path} exists already", "a study is never overwritten unasked", "choose another name, or add --force")
    write_atomic(path, template())
    return path


def keys(search: str = "") -> list[dict[str, str]]:
    """Every key of a study file, and measure of a prediction, whose name or help contains `search`: key, values, default, help.

    Raises StudyError when none does.
    """
    from ostinato.study.reference import keys as every_key
    from ostinato.study.reference import measures

    found = [row for row in [*every_key(), *measures()] if search.lower() in f"{row['key']} {row['help']}".lower()]
    if not found:
        raise StudyError(f"no key is about {search!r}", "keys are searched by name and help", "ostinato keys   lists all of them")
    return found


def list_studies() -> list[dict[str, Any]]:
    """The shipped studies with what they ask, and the replays, which `judge` takes."""
    from ostinato.study import shipped
    from ostinato.study.replays import FOLDER, shipped_replays

    named = shipped() | {FOLDER + name: about for name, about in shipped_replays().items()}
    return [{"study": name, "about": about} for name, about in named.items()]


def judge_replay(source: str | Path) -> JudgementSheet:
    """The verdicts on a published table: a replay file, or a shipped one (`replays/loop2`). Raises StudyError with key and line."""
    from ostinato.judge.replay import judge_replay as judged
    from ostinato.report.judgement import JudgementSheet
    from ostinato.study.replays import load_replay

    return JudgementSheet(judged(load_replay(source)), str(source))


def report_replay(source: str | Path, out: Path | str | None = None, store: Path | str | None = None) -> Path:
    """Write the page of a replay (default: into reports/ of the store) and return its path. Raises StudyError with key and line."""
    from ostinato.report.replay import write_replay
    from ostinato.study.replays import load_replay

    return write_replay(load_replay(source), str(source), open_store(store).root / "reports", Path(out) if out else None)


def corpora() -> dict[str, str]:
    """The corpora that have a name: those that are made here, and ready names for data sets on the hub; with what they are."""
    from ostinato.study.ready import CORPORA, READY

    return CORPORA | {name: ready.about for name, ready in READY.items()}


def fit(
    source: str | Path,
    columns: Iterable[str] = (),
    unit: str = "nats",
    held: Mapping[str, float] | None = None,
    base: str | None = None,
    size: str | None = None,
    beside: Iterable[str] = (),
    store: Path | str | None = None,
) -> FitSheet:
    """What one recurrence is worth, by L = E + A (N_once + r^phi N_rec)^-alpha + B D^-beta, fitted to a table of runs or to a study's.

    source: a CSV, TSV or Parquet file with columns N_once, N_rec, r, D, loss, or a study.  columns: NAME=COLUMN or NAME=COLUMN*FACTOR.
    unit: of losses, nats or bits a token.  held: E (nats a token), alpha, beta that are stated instead of fitted.  base: the treatment
    that others are compared with.  size, beside: of the study, and its other sizes whose runs are treatments.
    Raises FitError where the table cannot be read or does not identify phi, StudyError for no such study.
    """
    from ostinato.report.fit_sheet import fit_source

    return fit_source(source, list(columns), unit, held, base, size, list(beside), open_store(store))


def list_runs(store: Path | str | None = None) -> list[dict[str, Any]]:
    """Every run in the store: fingerprint, arm, seed, state, tokens; by study, arm and seed."""
    rows = []
    for folder in open_store(store).runs():
        status, given = folder.status(), folder.given()
        rows.append(
            {
                "run": folder.path.name[:12],
                "arm": given.get("arm"),
                "seed": given.get("seed"),
                "study": given.get("study"),
                "state": status.get("state"),
                "tokens": status.get("tokens"),
            }
        )
    return sorted(rows, key=lambda row: (str(row["study"]), str(row["arm"]), row["seed"] or 0))


def find_run(name: str, store: Path | str | None = None) -> RunFolder:
    """The one run whose fingerprint begins with `name`, or STUDY/ARM/SEED. Raises StoreError when there is none, or more than one."""
    place = open_store(store)
    rule, fix = "a run is named by the beginning of its fingerprint, or as STUDY/ARM/SEED", "ostinato list --runs"
    if "/" in name:
        study, _, rest = name.partition("/")
        arm, _, seed = rest.rpartition("/")
        for version in reversed(place.study_folder(study).versions()):
            found = {f"{key[0]}/{key[1]}": run for key, run in version.runs.items()}.get(f"{arm}/{seed}")
            if found and place.run(found).record():
                return place.run(found)
        raise StoreError(f"no run is called {name!r}", rule, fix)
    runs = [folder for folder in place.runs() if name and folder.path.name.startswith(name)]
    if len(runs) == 1:
        return runs[0]
    if not runs:
        raise StoreError(f"no run begins with {name!r}", rule, fix)
    raise StoreError(f"{len(runs)} runs begin with {name!r}", rule, "give one of: " + ", ".join(folder.path.name for folder in runs))


def check(run: str, tokens: int | None = None, store: Path | str | None = None) -> Check:
    """Measure a run's checkpoint at `tokens` (default: the newest that was measured) again and compare with the stored losses."""
    from ostinato.measure.check import check as measure_again

    return measure_again(find_run(run, store), open_store(store), tokens)


def check_registration(folder: Path | str) -> Checked:
    """Whether registrations are as they were sealed: in a folder of them, in one, in a study's folder, or in a store (of anybody).

    Raises StoreError where there is none.
    """
    from ostinato.store.seals import check as verify

    return verify(Path(folder).expanduser())


def take_measures(
    source: str | Path,
    only: Iterable[str] | None = None,
    pairs: str | Path | None = None,
    targets: int | None = None,
    tokens: int | None = None,
    device: str = "auto",
    study: str | Path | None = None,
    size: str | None = None,
    store: Path | str | None = None,
    trust_remote_code: bool = False,
    console: Console | None = None,
    passes: int | None = None,
) -> Measured:
    """Measure a run, every trained run of a study, or the model in a Hugging Face folder; what is stored already is found and kept.

    only: these measures, and anew.  pairs: minimal pairs, `blimp` or a folder.  targets: about how many (default: as the study says).
    tokens: of the checkpoint (default: the newest).  passes: of the same weights with so many, where their number is free.
    study: whose validation documents a Hugging Face folder reads, in this `size`.
    Raises StudyError for what cannot be asked, StoreError and DataError for what cannot be read, before anything is taken; a measure that
    fails is in the rows.
    """
    from ostinato.launch.measuring import measure_folder, measure_one, measure_study
    from ostinato.measure.all import asked
    from ostinato.study.pair_folder import pair_folder

    names, place = asked(list(only) if only else None), open_store(store)
    wishes = {} if targets is None else {"targets": targets}
    wishes |= {} if pairs is None else {"pairs": pair_folder(str(pairs))}
    kind = _measurable(str(source))
    if study is not None and kind != "folder":
        raise StudyError(f"--study {study} for a {kind}", "it names the text for a model from a Hugging Face folder", "leave it out")
    if passes is not None and passes < 1:
        raise StudyError(f"--passes {passes}", "a model runs one pass at least", "give 1 or more")
    if kind == "run":
        folder = find_run(str(source), store)
        wanted = _wanted(folder.resolved().get("measure") or {}, wishes, names)
        return measure_one(folder, wanted, names, tokens, device, console, passes)
    if kind == "study":
        record = Study.load(source, size).record
        return measure_study(record, place, _wanted(record.measure.model_dump(), wishes, names), names, tokens, device, console, passes)
    for option, value in (("--tokens", tokens), ("--passes", passes)):
        if value is not None:
            raise StudyError(f"{option} for a model from a folder", "it is of checkpoints and schedules of ours", "leave it out")
    record = Study.load(study, size).record if study is not None else None
    wanted = _wanted(record.measure.model_dump() if record else {}, wishes, names)
    return measure_folder(Path(source), place, wanted, record, names, device, trust_remote_code, console)


def _measurable(source: str) -> str:
    """What a source names: run, study or folder. Raises StudyError for a folder without a model."""
    from ostinato.study import shipped

    path = Path(source).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise StudyError(f"{path} holds no config.json", "what is measured is a run, a study, or a Hugging Face folder with a model",
                             "name the folder that save_pretrained wrote, or `ostinato list --runs`")  # fmt: skip
        return "folder"
    return "study" if source in shipped() or path.is_file() or path.suffix in (".yaml", ".yml") else "run"


def _wanted(own: dict[str, Any], wishes: dict[str, Any], names: tuple[str, ...] | None) -> Measure:
    """What is measured: the study's own wishes, and those of now. Raises StudyError for pairs that are asked for and not named."""
    from ostinato.study.records import Measure

    wanted = Measure.model_validate(own | wishes)
    if names and "pairs" in names and wanted.pairs is None:
        raise StudyError("pairs of no folder", "minimal pairs are read from somewhere", "--pairs blimp, or --pairs FOLDER")
    return wanted


def generate(
    run: str, prompt: str = "", tokens: int = 100, temperature: float = 0.8, seed: int = 0, store: Path | str | None = None
) -> str:
    """The prompt and `tokens` more tokens, from the newest checkpoint of a run."""
    from ostinato.measure.load import load_run

    decoder, prepared = load_run(find_run(run, store))
    from ostinato.model import generate as continue_ids

    ids = [prepared.bos, *prepared.encode(prompt)]
    written = continue_ids(decoder, ids, tokens, temperature=temperature, seed=seed)
    return prepared.decode([token for token in (*ids, *written) if token != prepared.bos])


def export_run(run: str, out: Path | str, tokens: int | None = None, store: Path | str | None = None) -> Path:
    """Write a run's checkpoint at `tokens` (default: the newest) as a folder that Hugging Face loads, and return its path.

    Raises StoreError for a folder that is there already, and where there is no such run or checkpoint.
    """
    from ostinato.export import export_run as write

    return write(find_run(run, store), out, tokens, open_store(store))


def query(sql: str, held_out: bool = False, store: Path | str | None = None) -> Answer:
    """SQL over the store: column names and rows. held_out: show that part too, which every study's log then says."""
    return open_store(store).query(sql, held_out)
