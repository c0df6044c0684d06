from __future__ import annotations

import numpy as np
import pytest

from ostinato.data.classes import TokenClasses
from ostinato.errors import StoreError
from ostinato.store.classes import COLUMNS


@pytest.fixture
def made():
    match = np.array([-1, 0, 32], np.int8)
    return TokenClasses(match, np.array([-1, 0, 8], np.int8), np.array([0, 7, 1 << 40]), np.arange(3, dtype=np.int32),
                        np.arange(1, 4, dtype=np.int32))  # fmt: skip


def test_classes_belong_to_targets_and_data(store, made):
    assert store.classes("a" * 64, "b" * 64) is None and not store.has_classes("a" * 64, "b" * 64)
    store.write_classes("a" * 64, "b" * 64, made)
    read = store.classes("a" * 64, "b" * 64)
    for name in COLUMNS:
        assert getattr(read, name).tolist() == getattr(made, name).tolist() and getattr(read, name).dtype == getattr(made, name).dtype
    assert store.has_classes("a" * 64, "b" * 64) and store.classes("a" * 64, "c" * 64) is None and store.classes("c" * 64, "b" * 64) is None


def test_a_torn_file_is_named_with_what_to_do(store, made):
    import pyarrow as pa

    from ostinato.store.tables import write_parquet

    store.write_classes("a" * 64, "b" * 64, made)
    file = next((store.root / "classes").iterdir())
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(StoreError, match="cannot be read") as caught:
        store.classes("a" * 64, "b" * 64)
    assert str(file) in str(caught.value) and "ostinato run" in caught.value.fix
    write_parquet(file, pa.table({"match": [1]}), {})
    with pytest.raises(StoreError, match="it lacks count, in_view, position, shown"):
        store.classes("a" * 64, "b" * 64)
