"""README.md of an export: what was trained, how it runs, what it cost and reaches, and how to load it; only what the store says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ostinato import __version__
from ostinato.analysis.minimal_pairs import CONVENTIONS, pair_scores
from ostinato.analysis.sums import Sums
from ostinato.ledger import Ledger, account
from ostinato.ledger.settings import settings
from ostinato.measure.load import resolved
from ostinato.report import numbers
from ostinato.schedule import draw_text
from ostinato.store import RunFolder, Store
from ostinato.study import arm_applications, tied_to
from ostinato.study.records import Arm

FRONT = """---
library_name: transformers
pipeline_tag: text-generation
tags: [ostinato, causal-lm, looped]
---
"""
IN_WORDS = {"bos": "with the first token scored, after a BOS", "skip_first": "without the first token"}


def model_card(folder: RunFolder, tokens: int, vocab: int, store: Store, name: str) -> str:
    """Markdown.  tokens: trained on so far.  vocab: entries of the tokenizer.  name: of the exported folder."""
    content, given = resolved(folder), folder.given()
    arm = Arm.model_validate(content["arm"])
    known = content.get("ledger") or {}
    ledger = account(arm, vocab, known.get("first_pass_ends"), known.get("words"))
    study = f" of the study {given['study']}" if given.get("study") else ""
    note = f"\n{arm.note}\n" if arm.note else ""
    parts = [
        f"{FRONT}# {name}\n",
        f"Arm **{arm.name}**{study}, seed {content['seed']}, after {tokens:,} of {ledger.tokens:,} tokens of training on "
        f"{Path(arm.data.corpus).name}. Trained and exported by ostinato {__version__}, run `{folder.name}`.\n{note}",
        _use(name, arm),
        f"## The order in which its layers run\n\n```\n{_drawing(arm)}\n```\n",
        "## What it costs\n\n" + _table(("", ""), _costs(ledger)),
        "## Results\n\n" + _results(folder, tokens, store) + _pairs(folder, tokens),
        "## How it was built and trained\n\n" + _table(("", ""), _settings(arm)),
    ]
    return "\n".join(parts)


def _use(name: str, arm: Arm) -> str:
    precision = ""
    if arm.recipe.dtype != "float32":
        precision = (f" It was trained and measured with products in {arm.recipe.dtype} and the rest in float32; "
                     f'`torch.autocast("cuda", torch.{arm.recipe.dtype})` computes so here.')  # fmt: skip
    return f"""```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("{name}", trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained("{name}", trust_remote_code=True)
written = model.generate(**tokenizer(["Once"], return_tensors="pt"), max_new_tokens=50)
print(tokenizer.batch_decode(written, skip_special_tokens=True))
```

A text begins with BOS, which the tokenizer puts there; BOS also ends a text. Rows of training had {arm.recipe.context:,} tokens.\
{precision} The code is one file, `modeling_ostinato.py`, in plain torch and transformers; its cache has a slot for every application
of a layer.
"""


def _drawing(arm: Arm) -> str:
    model = arm.model
    return draw_text(arm_applications(model), len(model.layers), model.layers, tied_to(model), model.inject)


def _settings(arm: Arm) -> Iterable[tuple[str, str]]:
    """Without the seeds of the study, and without where the text lay."""
    for key, value in settings(arm).items():
        if key != "seeds":
            yield key, value.replace(arm.data.corpus, Path(arm.data.corpus).name)


def _costs(ledger: Ledger) -> Iterable[tuple[str, str]]:
    yield "parameters", numbers.exact(ledger.params_total)
    yield "outside embedding, head and tables", numbers.exact(ledger.params_nonembedding)
    yield "counted as often as they are applied", numbers.exact(ledger.params_applied)
    yield "effective depth, in layers", f"{numbers.depth(ledger.effective_depth)}, of {numbers.several(ledger.unique_layers, 'layer')}"
    yield "FLOPs a token, training", f"{numbers.human(ledger.flops_per_token)} (forward {numbers.human(ledger.flops_forward_per_token)})"
    yield "FLOPs of the whole training", numbers.power(ledger.flops_total)
    yield "passes over the text", numbers.fixed(ledger.epochs, 2)
    yield "words of the text", numbers.exact(ledger.words)
    yield "cache a token", numbers.size(ledger.cache_bytes_per_token)
    if ledger.cache_bytes_fixed:
        yield "recurrent state of a text", numbers.size(ledger.cache_bytes_fixed)


def _results(folder: RunFolder, tokens: int, store: Store) -> str:
    """The validation loss at this checkpoint and those of simple models on the same targets; the held-out part is not looked at."""
    if ("validation", tokens) not in folder.measured():
        return "The validation loss was not measured at this checkpoint.\n"
    footer = folder.read_loss_summary("validation", tokens)
    sums = Sums(footer["sum_nats"], footer["targets"], footer["bytes"])
    rows = [("this model", sums)]
    floors = store.floors(footer["target_id"], resolved(folder)["data_fingerprint"]) or {}
    rows += [(f"{name} counts of the training text", Sums(nats * sums.targets, sums.targets, sums.bytes)) for name, nats in floors.items()]
    windows = store.targets(footer["target_id"]).policy
    said = f"\nValidation: {sums.targets:,} tokens, {sums.bytes:,} bytes of text; {windows}.\n"
    cells = [(name, numbers.fixed(one.nats_per_token), numbers.fixed(one.bits_per_byte)) for name, one in rows]
    return _table(("", "nats a token", "bits a byte"), cells) + said


def _pairs(folder: RunFolder, tokens: int) -> str:
    """The accuracy on minimal pairs, where they were scored at this checkpoint."""
    measure = folder.measure("pairs", tokens)
    if measure is None:
        return ""
    scores = [pair_scores([measure.table()], convention) for convention in (CONVENTIONS if measure.about["bos"] else ("skip_first",))]
    said = ", ".join(f"{numbers.fixed(one.macro, 3)} {IN_WORDS[one.convention]}" for one in scores)
    paradigms, pairs = numbers.several(len(scores[0].paradigms), "paradigm"), numbers.several(scores[0].total.pairs, "pair")
    return f"\nMinimal pairs ({Path(measure.about['source']).name}, {paradigms}, {pairs}), accuracy averaged over paradigms: {said}.\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |\n" for line in lines)
