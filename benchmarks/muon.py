"""Milliseconds of a Muon step: ours, and torch.optim.Muon on the same matrices, one thread and two.

    python benchmarks/muon.py [--quick] [--json FILE]

Shapes: the matrices inside the layers of a, b and c, and of 4 layers of width 64 with SwiGLU of 256. torch's is bfloat16 inside, one matrix
at a time, without second moment and cautious decay; ours is float32. What bfloat16 costs depends on the CPU, so all is measured again
with oneDNN held to AVX-512 without bfloat16 instructions, and to AVX2, where torch's bfloat16 products take plain loops: there only the
small shapes, as a step of b takes torch nine seconds. The notes have the share of this machine's matrix throughput: operations of the five
published steps over the seconds, beside one product of 1,024 x 1,024 matrices.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys

from harness import KEEP_MEMORY, SHAPES, Row, Shape, interleaved, main, medians

TARGET = 10.0
SMALL = Shape(64, 4, 256, 512, 128, 8, 4)
CPUS = {"": ("d64", "a", "b", "c"), "AVX512_CORE": ("d64", "a"), "AVX2": ("d64", "a")}
"""Highest instructions for oneDNN, and the shapes that are measured with them."""
ROUNDS = {"d64": 20, "a": 8, "b": 4, "c": 2}


def matrices(shape: Shape) -> list:
    """Of every layer: q, k, v, o, gate, up and down, with gradients."""
    import torch

    draw = torch.Generator().manual_seed(1)
    width, hidden = shape.width, shape.hidden
    sizes = [*[(width, width)] * 4, (hidden, width), (hidden, width), (width, hidden)] * shape.layers
    found = [torch.nn.Parameter(torch.randn(size, generator=draw) / 30) for size in sizes]
    for matrix in found:
        matrix.grad = torch.randn(matrix.shape, generator=draw) / 100
    return found


def operations(matrix) -> int:
    """Of five published steps: A = X X', A A, and the product with X."""
    short, long = sorted(matrix.shape)
    return 5 * (4 * short**2 * long + 2 * short**3)


def steps(name: str, threads: int, quick: bool) -> dict[str, float]:
    """Seconds of ours, of torch's and of one product of 1,024 x 1,024, and the operations of a step."""
    import torch

    from ostinato.study import records
    from ostinato.train.groups import Group
    from ostinato.train.muon import Muon

    torch.set_num_threads(threads)
    shape = {"d64": SMALL, **SHAPES}[name]
    own, given, square = matrices(shape), matrices(shape), torch.randn(1024, 1024)
    group = Group("matrix", "muon", 0.02, (0.0, 0.0), 0.0, 0.1, tuple(str(number) for number in range(len(own))), tuple(own))
    ours = Muon([group], records.Muon())
    theirs = torch.optim.Muon(given, lr=0.02, weight_decay=0.1, nesterov=True)
    taken = interleaved({"ours": functools.partial(ours.step, 1.0, 0.95, 1.0), "theirs": theirs.step, "product": lambda: square @ square},
                        1 if quick else ROUNDS[name], 1)  # fmt: skip
    return medians(taken) | {"operations": float(sum(map(operations, own)))}


def measured(cpu: str, name: str, threads: int, quick: bool) -> dict[str, float]:
    """`steps` in a process of its own: oneDNN looks at its instructions once."""
    code = f"import json, muon; print(json.dumps(muon.steps({name!r}, {threads}, {quick})))"
    environment = os.environ | KEEP_MEMORY | ({"ONEDNN_MAX_CPU_ISA": cpu} if cpu else {})
    folder = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def measure(quick: bool = False) -> list[Row]:
    """A row for each CPU, shape and number of threads."""
    rows = []
    for cpu, names in CPUS.items():
        for name in names[:2] if quick else names:
            for threads in (1, 2) if not cpu else (1,):
                found = measured(cpu, name, threads, quick)
                share = found["operations"] / found["ours"] / (2 * 1024**3 / found["product"])
                claim = f"Muon step, {name}, threads {threads}" + (f", oneDNN held to {cpu}" if cpu else "")
                rows.append(Row(claim, 1e3 * found["ours"], 1e3 * found["theirs"], "ms", found["theirs"] / found["ours"], TARGET,
                                peer_name="torch.optim.Muon",
                                notes={"published operations, share of matrix throughput": f"{share:.0%}"}))  # fmt: skip
    return rows


if __name__ == "__main__":
    main(measure, __doc__)
