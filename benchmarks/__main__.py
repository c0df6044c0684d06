"""All benchmarks, or those that are named, each in a process of its own: one table, and everything as JSON.

    python benchmarks [NAME ...] [--quick] [--json benchmarks.json]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from harness import KEEP_MEMORY, Row, table  # noqa: E402

NAMES = ["floor", "training", "study", "compiled", "delta", "muon", "gradients", "checkpointing",
         "head", "evaluation", "plan", "startup", "tokenizing", "classes", "pairs", "judging", "phi"]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="fewer rounds: whether they run, not what they measure")
    parser.add_argument("--json", type=Path, default=Path("benchmarks.json"))
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(NAMES)):
        parser.error(f"no benchmark {unknown[0]}: there are {', '.join(NAMES)}")
    found: dict[str, dict] = {}
    rows: list[Row] = []
    failed = []
    for name in given.names or NAMES:
        print(f"{name} …", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.json"
            command = [sys.executable, str(HERE / f"{name}.py"), "--json", str(path), *(["--quick"] if given.quick else [])]
            done = subprocess.run(command, env=os.environ | KEEP_MEMORY, stdout=subprocess.DEVNULL)
            if done.returncode:
                failed.append(name)
                continue
            found[name] = json.loads(path.read_text(encoding="utf-8"))
        rows += [Row(**{key: value for key, value in row.items() if key != "met"}) for row in found[name]["rows"]]
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table(rows))
    print(f"{sum(row.met is True for row in rows)} of {sum(row.met is not None for row in rows)} targets met; written to {given.json}")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
