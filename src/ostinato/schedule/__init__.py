"""The schedule language: which layers run, in which order, how often. Parse, print, expand, draw."""

from ostinato.schedule.application import Application, Part, effective_depth, unique_layers
from ostinato.schedule.draw_svg import draw_svg
from ostinato.schedule.draw_text import draw_text
from ostinato.schedule.groups import RepeatedGroup, repeated_groups
from ostinato.schedule.language import MOST_APPLICATIONS
from ostinato.schedule.schedule import Schedule, parse, plain

__all__ = ["MOST_APPLICATIONS", "Application", "Part", "RepeatedGroup", "Schedule", "draw_svg", "draw_text", "effective_depth", "parse",
           "plain", "repeated_groups", "unique_layers"]  # fmt: skip
