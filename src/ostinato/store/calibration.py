"""The calibration of this machine on disk: one JSON file in the cache folder, found by what it was measured on.

Its name follows from the device (the model of the processor, or the name of the GPU), the usable cores, the version of torch and that of
the probes; where any of these changes, there is no calibration until the next one. It is advice and never needed: a file that cannot be
read, or that is about something else than its name says, is left alone and said in a line. Reading imports neither torch nor arrays.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import logging
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ostinato.files import as_json, default_cache, write_atomic
from ostinato.ledger.seconds import VERSION, Calibration, CompiledProbe, Pace
from ostinato.store.environment import cpu_model, gpus, usable_cores

log = logging.getLogger("ostinato")

KEY = ("device", "cores", "torch", "version")


def calibration_key(device: str = "auto") -> dict[str, Any]:
    """What a calibration is of: device, cores, torch, version.  device: auto, cpu or cuda; auto takes a GPU where there is one."""
    names = [] if device == "cpu" else gpus()
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = ""
    return {"device": names[0].get("name", "GPU") if names else cpu_model() or "CPU", "cores": 1 if names else usable_cores(),
            "torch": torch, "version": VERSION}  # fmt: skip


def calibration_path(cache: Path, key: Mapping[str, Any]) -> Path:
    """Where the calibration of this key is, whether it is there or not."""
    return cache / "calibration" / f"{hashlib.sha256(json.dumps([key[name] for name in KEY]).encode()).hexdigest()[:16]}.json"


def read_calibration(cache: Path, key: Mapping[str, Any]) -> tuple[Calibration | None, str | None]:
    """The calibration of this key, or None; and, when there is a file that is of no use, one line that says why."""
    path = calibration_path(cache, key)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if wrong := [name for name in KEY if content[name] != key[name]]:
            raise ValueError(f"it is of {wrong[0]} {content[wrong[0]]!r}")
        if not content["paces"]:
            raise ValueError("nothing in it was measured")
        return Calibration(
            str(content["device"]), int(content["cores"]), str(content["made"]), tuple(_pace(pace) for pace in content["paces"]),
            tuple(_compiled(one) for one in content["compiled"]),
        ), None  # fmt: skip
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        return None, f"{path} is ignored ({error or type(error).__name__}); `ostinato calibrate` writes it anew"


def found_calibration(device: str = "auto") -> Calibration | None:
    """This machine's calibration in the cache folder, or None; a file that is of no use is logged as a warning."""
    made, why = read_calibration(default_cache(), calibration_key(device))
    if why:
        log.warning("%s", why)
    return made


def _pace(record: Mapping[str, Any]) -> Pace:
    rates = {name: {str(count): float(value) for count, value in record[name].items()} for name in ("step", "forward")}
    pace = Pace(int(record["threads"]), int(record["at_once"]), str(record["dtype"]), **rates, start=float(record["start"]),
                error=float(record["error"]))  # fmt: skip
    _in_range(min(pace.threads, pace.at_once) >= 1 and any(pace.step.values()))
    _in_range(all(0 <= one < math.inf for one in (*pace.step.values(), *pace.forward.values(), pace.start, pace.error)))
    return pace


def _compiled(record: Mapping[str, Any]) -> CompiledProbe:
    probe = CompiledProbe(int(record["width"]), float(record["ratio"]), float(record["seconds"]))
    _in_range(probe.width >= 1 and 0 < probe.ratio < math.inf and 0 <= probe.seconds < math.inf)
    return probe


def _in_range(is_so: bool) -> None:
    if not is_so:
        raise ValueError("a number is out of range")


def write_calibration(cache: Path, key: Mapping[str, Any], calibration: Calibration, probes: Any) -> Path:
    """Store it, with what every probe took. Raises OSError for a cache folder that cannot be written."""
    path = calibration_path(cache, key)
    write_atomic(path, as_json(dict(key) | asdict(calibration) | {"probes": probes}) + "\n")
    return path


def made_now() -> str:
    """The time in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
