"""Compiled code, one graph per kind of application and, on a GPU, one for the head; the loop over applications stays in Python.

A graph takes parameters, scalars, masks and angles as inputs: whatever number of layers and passes are of one kind, it is compiled once,
and the compiler's time does not grow with depth (torch calls it regional compilation). It is bound to the shapes of its tensors and to
which of them have a gradient; other ones, as those of a smaller last micro-batch or of a pass without gradient, are compiled as well, and
so are other numbers of threads. Each of these has a code object of
its own, because torch keeps what it compiled by code object, tries all of that in turn at every call, and gives up at eight. One thread
compiles at a time; the others find what it made.

What was compiled stays in the cache folder, and the next process finds it there: OSTINATO_CACHE, or TORCHINDUCTOR_CACHE_DIR where that is
set. Its name follows from torch's version, the processor, the instructions in use and the sources of this room: code for or of others is
never run. torch locks and renames its files, so any number of processes may compile at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from ostinato.errors import TrainingError
from ostinato.files import default_cache
from ostinato.store.environment import cpu_model

ALONE = threading.RLock()


class Compiled:
    """The compiled functions of one decoder, made when first called.  backend: of torch.compile.

    Nothing goes back to eager code silently: a graph break is an error, and one that the compiler raises becomes a TrainingError.
    """

    def __init__(self, backend: str | Callable = "inductor"):
        self.backend = backend
        self.functions: dict[Hashable, Callable] = {}

    def of(self, function: Callable, kind: Hashable, whole: bool = True) -> Callable:
        """`function`, compiled; calls of one kind differ in their tensors alone. It takes positional arguments.

        whole: False for a kind that calls what cannot be traced: it is cut there, into a graph before and one after.
        """
        return partial(self._call, function, kind, whole)

    def _call(self, function: Callable, kind: Hashable, whole: bool, *given: Any) -> Any:
        tensors = tuple((part.shape, part.requires_grad) for part in given if isinstance(part, Tensor))
        key = function, kind, torch.get_num_threads(), torch.is_grad_enabled(), tensors
        if made := self.functions.get(key):
            return made(*given)
        with ALONE:
            made = self.functions.get(key)
            return made(*given) if made else self._made(key, function, whole, given)

    def _made(self, key: Hashable, function: Callable, whole: bool, given: tuple) -> Any:
        if self.backend == "inductor":
            _keep_code()
        try:
            with _compiling():
                if self.backend == "inductor" and any(part.device.type == "cpu" for part in given if isinstance(part, Tensor)):
                    _require_full_width()
                made = torch.compile(own_code(function), backend=self.backend, fullgraph=whole, dynamic=False)
                found = made(*given)
        except Exception as error:
            raise _explained(error) from error
        self.functions[key] = made
        return found


def code_folder() -> Path:
    """Where code compiled of these very sources is kept, for this version of torch and this processor."""
    capability = torch.backends.cpu.get_cpu_capability()  # of the processor, or less where ATEN_CPU_CAPABILITY says so
    digest = hashlib.sha256(f"{torch.__version__} {sys.version} {cpu_model()} {capability}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return default_cache() / "compiled" / f"torch-{torch.__version__}-{digest.hexdigest()[:8]}"


def _keep_code() -> None:
    """Have torch keep code in our folder, unless the user named another; torch itself writes its own choice into the variable."""
    named = os.environ.get("TORCHINDUCTOR_CACHE_DIR", "")
    if not named or named.startswith(str(Path(tempfile.gettempdir()) / "torchinductor_")):
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(code_folder())


def _require_full_width() -> None:
    """Raise TrainingError if Inductor would use narrower instructions than torch's own operations, whose bits would differ.

    It asks small programs in its cache folder which ones work; a damaged one says no, without a word.
    """
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    wanted, found = torch.backends.cpu.get_cpu_capability(), str(pick_vec_isa())
    if wanted.startswith("AVX") and wanted.lower() not in found:
        raise TrainingError(f"the compiler found that instructions of {wanted}, which torch uses, do not work",
                            "compiled code has the instructions of torch's own operations: with others it is other code",
                            f"delete {os.environ['TORCHINDUCTOR_CACHE_DIR']}, if its files are damaged; or see to the C++ compiler (CXX); "
                            "or, as long as the run has taken no step, give --no-compile")  # fmt: skip


def own_code(function: Callable) -> Callable:
    """The same function with a code object of its own."""
    copy = FunctionType(function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


@contextlib.contextmanager
def _compiling() -> Iterator[None]:
    """What holds while code is made, whatever was imported and set before.

    The backward graph is compiled along with the forward graph, so that what fails fails here, and our autograd Functions are kept on
    disk as well. Inductor is told of deterministic algorithms: torch does so only where Inductor was imported before they were asked for.
    Warnings are about torch's own code.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch._functorch import config as functorch
        from torch._inductor import config as inductor

        ours = functorch.patch(force_non_lazy_backward_lowering=True, autograd_cache_allow_custom_autograd_functions=True)
        with ours, inductor.patch(deterministic=torch.are_deterministic_algorithms_enabled()):
            yield


def _explained(error: Exception) -> Exception:
    """The error to raise for one of a first call: itself, unless it is the compiler's."""
    from torch._dynamo.exc import TorchDynamoException

    if not isinstance(error, TorchDynamoException) or "memory" in str(error):  # for want of memory the caller takes fewer rows
        return error
    said = " ".join([line.strip() for line in str(error).splitlines() if line.strip()][:2]) or type(error).__name__
    return TrainingError(f"the model could not be compiled: {said}", "what is asked to be compiled is not run in another way",
                         f"see to the C++ compiler (CXX); or delete {code_folder()}, if its files are damaged; "
                         "or, as long as the run has taken no step, give --no-compile")  # fmt: skip
