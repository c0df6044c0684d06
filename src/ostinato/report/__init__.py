"""Tables, figures and the page of a study, from the store alone. No torch."""

from ostinato.report.plan import PlanSheet
from ostinato.report.results import Results, results_text
from ostinato.report.tables import Cell, Column, Row, Table, to_rich
from ostinato.report.write import page, write_report

__all__ = ["Cell", "Column", "PlanSheet", "Results", "Row", "Table", "page", "results_text", "to_rich", "write_report"]
