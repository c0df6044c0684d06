"""What an arm costs and what a study matches: parameters, FLOPs, memory and cache, from the records alone (no torch)."""

from ostinato.ledger.account import account
from ostinato.ledger.compare import Axis, Comparison, compare
from ostinato.ledger.confounds import confounds
from ostinato.ledger.inventory import ParameterRow, inventory
from ostinato.ledger.ledger import ApplicationRow, Ledger, cache_bytes

__all__ = ["ApplicationRow", "Axis", "Comparison", "Ledger", "ParameterRow", "account", "cache_bytes", "compare", "confounds", "inventory"]
