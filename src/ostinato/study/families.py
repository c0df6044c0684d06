"""What a model family changes among the defaults of `Model`; the user's own keys always win.

llama: pre-norm blocks with weighted RMS norms, SwiGLU and a tied head (Touvron et al., arXiv 2302.13971).
loop2: the decoder of karpathy/autoresearch, as used for the looped Transformer of the shipped study `loop2`.
"""

from __future__ import annotations

from typing import Any

from ostinato.study.merge import merge

DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {"mlp": {"ratio": 4}},
    "loop2": {
        "mlp": {"kind": "relu2", "ratio": 4},
        "norm": {"weight": False},
        "qk_norm": "plain",
        "windows": {"pattern": "SSSL"},
        "value_embeddings": "alternate",
        "embedding_norm": True,
        "application_scalars": True,
        "softcap": 15,
        "tie_embeddings": False,
        "init": {"rule": "loop2"},
    },
}


def with_family(given: dict[str, Any]) -> dict[str, Any]:
    """The given model keys over the defaults of their family; an unknown family is left for the type to refuse."""
    return merge(DEFAULTS.get(str(given.get("family", "llama")), {}), given)
