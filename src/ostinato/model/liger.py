"""Loss and gradient through the head by the Triton kernels of Liger Kernel (Hsu et al., arXiv 2410.10989): `pip install ostinato[liger]`.

Their function works in chunks of tokens as head.py does; softmax, softcap and the gradient of a chunk's logits are one kernel that
overwrites the logits in the format of the products. Called here is the function below their autograd class, because the class gives
a gradient for losses of single tokens only by computing all logits twice. It reads one number from the GPU, the count of targets that
count, so the processor waits there once a micro-batch.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import inspect

import torch
from torch import Tensor

FORMATS = (torch.float32, torch.bfloat16, torch.float16)
NEEDED = {"ignore_index", "reduction", "softcap", "accum_dtype", "compute_gradients", "weight_requires_grad"}
_FOUND = importlib.util.find_spec("liger_kernel")  # looked up once: every micro-batch asks


def chunks(x_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, softcap: float | None, product_dtype: torch.dtype,
           wanted: tuple[bool, bool]) -> tuple[Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """Nats, float64 [N], 0 where the target is -1; and where wanted dx and dW of their plain sum, in the dtypes of x and weight."""
    nats_N, _, _, _, dx_ND, dweight_VD, _ = _function()(
        x_ND.detach().to(product_dtype).contiguous(), weight_VD.detach().to(product_dtype).contiguous(), targets_N,
        ignore_index=-1, reduction="none", softcap=softcap, accum_dtype=torch.float32, compute_gradients=any(wanted),
        weight_requires_grad=wanted[1],
    )  # fmt: skip
    return (nats_N.double(), dx_ND.to(x_ND.dtype) if wanted[0] else None, dweight_VD.to(weight_VD.dtype) if wanted[1] else None)


def unusable(product_dtype: torch.dtype) -> str:
    """Why Liger Kernel cannot be used for products in this format, "" when it can."""
    if product_dtype not in FORMATS:
        return f"Liger Kernel has no products in {str(product_dtype).removeprefix('torch.')}"
    return lacking()


@functools.cache
def lacking() -> str:
    """What is missing of Liger Kernel itself, "" when nothing is. Imports it, once."""
    if _FOUND is None or _FOUND.origin is None:  # a folder that happens to have the name has no origin
        return "Liger Kernel is not installed: pip install ostinato[liger]"
    try:
        lacks = NEEDED - set(inspect.signature(_function()).parameters)
    except ImportError as error:
        return f"Liger Kernel cannot be imported: {error}"
    version = importlib.metadata.version("liger-kernel")
    return f"Liger Kernel {version} has no {', '.join(sorted(lacks))}: pip install --upgrade ostinato[liger]" if lacks else ""


def _function():
    from liger_kernel.ops.fused_linear_cross_entropy import fused_linear_cross_entropy_forward

    return fused_linear_cross_entropy_forward
