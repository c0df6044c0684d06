"""The models that a machine is calibrated with: small, quick, and between them all that desk studies are made of. No torch.

Widths 64 to 512, contexts 128 to 512, vocabularies 512 to 8,192, attention and the gated delta rule, AdamW and Muon, one micro-batch and
several; each takes a fraction of a second on one core.
"""

from __future__ import annotations

from dataclasses import dataclass

from ostinato.study.families import with_family
from ostinato.study.records import Arm, Data, Model, Recipe, Tokenizer


@dataclass(frozen=True)
class Probe:
    """One arm of a calibration. rows: of a step."""

    width: int
    layers: str
    context: int
    rows: int
    vocab: int
    optimizer: str = "muon"
    family: str = "llama"
    heads: int | None = None
    kv_heads: int | None = None
    micro_rows: int | None = None
    checkpointing: bool = False

    def arm(self, dtype: str = "float32") -> Arm:
        """As a study would have it, for a run that never ends."""
        shape = {"family": self.family, "layers": self.layers, "d_model": self.width, "heads": self.heads or max(2, self.width // 64),
                 "kv_heads": self.kv_heads}  # fmt: skip
        if self.family == "loop2":
            shape["windows"] = {"pattern": "SSSL", "short": self.context // 2 + 1}
        recipe = {"tokens": 10**9, "batch": self.rows * self.context, "context": self.context, "optimizer": self.optimizer, "dtype": dtype,
                  "micro_batch": self.micro_rows and self.micro_rows * self.context,
                  "activation_checkpointing": self.checkpointing}  # fmt: skip
        return Arm(name="probe", model=Model.model_validate(with_family(shape)), recipe=Recipe.model_validate(recipe),
                   data=Data(tokenizer=Tokenizer(bpe=self.vocab)), seeds=(1,))  # fmt: skip


CPU = (
    Probe(64, "4", 128, 4, 512, heads=4),
    Probe(64, "2", 128, 4, 512, "adamw", heads=4),
    Probe(64, "8", 128, 4, 512, family="loop2", heads=4),
    Probe(64, "2 x (gdn gdn gqa)", 128, 4, 512, heads=4, kv_heads=2),
    Probe(128, "4", 256, 4, 2048, "adamw"),
    Probe(128, "3 x (gdn)", 256, 8, 512, "adamw"),
    Probe(64, "4", 512, 2, 512, "adamw", heads=2),
    Probe(64, "2", 128, 16, 4096, "adamw", heads=4),
    Probe(128, "1", 256, 16, 4096, "adamw", heads=4),
    Probe(256, "2", 256, 4, 1024),
    Probe(256, "1", 512, 4, 8192, "adamw"),
    Probe(256, "3", 128, 2, 512),
    Probe(512, "1", 128, 4, 512),
    Probe(512, "2", 512, 1, 2048, "adamw"),
    Probe(512, "1", 256, 4, 512, "adamw"),
    Probe(96, "6", 128, 8, 2048, heads=4),
    Probe(192, "2 x (gdn gqa)", 256, 4, 512, "adamw", heads=6),
    Probe(64, "16", 128, 1, 512, heads=4),
    Probe(128, "2", 128, 8, 512, "adamw", micro_rows=2),
    Probe(256, "2", 256, 4, 512, "adamw", family="loop2", checkpointing=True),
    Probe(256, "1 x (gdn)", 512, 2, 512, "adamw", heads=4),
)

GPU = (
    Probe(256, "4", 512, 16, 8192, heads=4),
    Probe(512, "8", 1024, 16, 8192, heads=8),
    Probe(512, "8", 2048, 16, 8192, family="loop2", heads=4),
    Probe(512, "16", 1024, 4, 2048, "adamw", heads=8),
    Probe(768, "6", 2048, 8, 16_384, "adamw", heads=12, kv_heads=4),
    Probe(768, "2 x (gdn gdn gqa)", 2048, 8, 16_384, "adamw", heads=12, kv_heads=4),
    Probe(768, "6 x gdn", 1024, 8, 4096, "adamw", heads=12),
    Probe(768, "12", 1024, 4, 4096, heads=12),
    Probe(1024, "4", 1024, 16, 32_768, "adamw", heads=8),
    Probe(1024, "8", 2048, 4, 4096, heads=8),
    Probe(512, "8", 512, 64, 4096, "adamw", heads=8, micro_rows=16),
    Probe(128, "4", 1024, 64, 8192, "adamw", heads=4),
    Probe(64, "8", 128, 4, 512, heads=4),
    Probe(1024, "4", 2048, 4, 8192, "adamw", heads=8, checkpointing=True),
)
COMPILED = (Probe(64, "4", 128, 8, 512, heads=4), Probe(256, "2", 256, 8, 4096, heads=4), Probe(512, "1", 512, 4, 8192, heads=8))
