"""What a subject's head reads from a stream: nats of targets and logarithms of probabilities, in pieces that keep few logits at a time.

Shapes, as suffixes of names: N targets, D d_model, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from ostinato.measure.subject import Subject, Watch
from ostinato.measure.windows import Windows
from ostinato.model.head import softmax

MOST_LOGITS = 1 << 21
"""At once: 8 MiB in float32."""


def stream(subject: Subject, windows: Windows, skip: frozenset[int] = frozenset()) -> Tensor:
    """The stream after the last application, before the final norm, where targets are predicted: [N, D].  skip: as in Subject.hidden."""
    last: list[Tensor] = []

    def keep(_: int | None, x_BTD: Tensor) -> None:
        last[:] = [x_BTD]

    subject.hidden(windows.tokens_BT, windows.documents_BT, skip=skip, watch=keep)
    return last[0][windows.at_BT]


def streams(subject: Subject, windows: Windows, see: Watch) -> None:
    """Calls see(application, x_ND) before the first application (None) and after each, with the stream where targets are predicted."""
    subject.hidden(windows.tokens_BT, windows.documents_BT, watch=lambda application, x_BTD: see(application, x_BTD[windows.at_BT]))


def nats(subject: Subject, x_ND: Tensor, wanted_N: Tensor) -> np.ndarray:
    """Of every target, float32 [N], reckoned as in training."""
    found = [softmax(scores(subject, x_ND[part]), wanted_N[part, None], None, False)[0] for part in pieces(subject, x_ND)]
    return torch.cat(found).float().cpu().numpy()


def scores(subject: Subject, x_ND: Tensor) -> Tensor:
    """Logits [N, V] of the stream, float32 or better."""
    return exact(subject.readout(x_ND[None])[0])


def exact(x: Tensor) -> Tensor:
    """In float32 or better."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def pieces(subject: Subject, x_ND: Tensor) -> Iterator[slice]:
    """The N targets, so many at a time that their logits are few."""
    size = max(1, MOST_LOGITS // subject.vocab)
    return (slice(first, first + size) for first in range(0, len(x_ND), size))
