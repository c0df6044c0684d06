"""Token classes where measurements are read. Their names are `ostinato.claims.classes`; what is in them, `TokenClass.of` says."""

from ostinato.claims.classes import ALL, FAMILIES, Family, TokenClass, named_classes

__all__ = ["ALL", "FAMILIES", "Family", "TokenClass", "named_classes"]
