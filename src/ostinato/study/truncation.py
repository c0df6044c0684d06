"""Truncated backpropagation: only the last passes of a repeated group are learned from (`backprop: K`, or `half` of them, rounded up).

    passes 1 … r−K     run without gradient: nothing is kept for the backward pass, no weight learns from them, and the stream that leaves
                       the last of them is a constant
    passes r−K+1 … r   as ever: their weights learn, and so does what comes before the group, but by what these passes see again of it
                       alone, e through W [e; h] or x0 in x = h + x0

So it was trained by Geiping et al. (arXiv 2502.05171, section 3.3: the last 8 passes), and in the case study of arXiv 2604.21106, which
takes the last ceil(r/2). Every group of a model is cut alike. In measuring and generating nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ostinato.errors import StudyError
from ostinato.schedule import Application, RepeatedGroup
from ostinato.study.derive import arm_applications, pass_groups, tied_to
from ostinato.study.draws import deepest
from ostinato.study.records import Model


def gradient_passes(model: Model, passes: int) -> int:
    """Through how many of a group's passes gradients go."""
    if model.backprop is None:
        return passes
    return min(passes, -(-passes // 2) if model.backprop == "half" else model.backprop)


def without_gradient(model: Model, groups: Sequence[RepeatedGroup] | None = None) -> frozenset[int]:
    """Indices of the applications that run without gradient in training.  groups: of another number of passes (default: the model's)."""
    if model.backprop is None:
        return frozenset()
    cut = ((group, group.passes - gradient_passes(model, group.passes)) for group in (pass_groups(model) if groups is None else groups))
    return frozenset(index for group, passes in cut for index in range(group.first, group.first + passes * group.length))


def check(model: Model) -> None:
    """Raise StudyError where something would not learn at all: what comes before a group, or a sublayer that runs in early passes alone."""
    model = deepest(model)
    cut = without_gradient(model)
    if not cut:
        return
    applications = arm_applications(model)
    for group in pass_groups(model):
        seen = model.inject == "linear" or (model.inject == "add" and group.first == 0)
        if group.first in cut and not seen:
            before = "layers before the group" if group.first else "embedding"
            raise StudyError(f"backprop {model.backprop} with inject {model.inject}: the {before} would not learn from what the group does",
                             "what comes before a group learns by what the passes with gradient see again of it",
                             "inject: linear, or leave backprop out")  # fmt: skip
    learning = _sublayers(model, [one for one in applications if one.index not in cut])
    for one in applications:
        for layer, part in sorted(_sublayers(model, [one]) - learning):
            raise StudyError(f"backprop {model.backprop}: the {part} of layer {layer} runs only in passes without gradient",
                             "every sublayer learns from one of its applications at least",
                             "backprop: none, or a schedule whose later passes run it, too")  # fmt: skip


def _sublayers(model: Model, applications: Sequence[Application]) -> set[tuple[int, str]]:
    """Whose parameters run there: (layer, sublayer), ties followed, and norms and gates of the layer itself with it."""
    ties = tied_to(model)
    own = {(one.layer, part) for one in applications for part in one.sublayers}
    return own | {(ties.get(place, place[0]), place[1]) for place in own}
