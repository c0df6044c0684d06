"""Polar Express: the nearest orthogonal matrix, by five matrix polynomials chosen to converge fastest in the worst case.

Amsel, Persson, Musco, Gower (2025), arXiv 2505.16932. The coefficients are those published with the loop2 recipe
(a safety factor of 1.02 on the norm). The singular values end near 1, not at it: that is all Muon needs.
"""

from __future__ import annotations

import torch
from torch import Tensor

COEFFICIENTS = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)
SAFETY, TINY = 1.02, 1e-6


def polar(g_NRC: Tensor, steps: int = 5) -> Tensor:
    """Bring the singular values of each matrix of a stack [n, rows, columns] close to 1; dtype and shape stay.

    X <- a X + (b A + c A A) X with A = X X', or X (b A + c A A) with A = X' X when X has more rows: A is as small as it can be.
    A matrix of zeros stays zero.
    """
    tall = g_NRC.shape[-2] > g_NRC.shape[-1]
    x = g_NRC / (SAFETY * torch.linalg.vector_norm(g_NRC, dim=(-2, -1), keepdim=True) + TINY)
    for a, b, c in COEFFICIENTS[:steps]:
        gram = torch.bmm(x.mT, x) if tall else torch.bmm(x, x.mT)
        mixed = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, x, mixed, beta=a) if tall else torch.baddbmm(x, mixed, x, beta=a)
    return x
