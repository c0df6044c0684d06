"""Statistics, sealed predictions and the verdicts that a program gives on them. No torch, and scipy only when a number is asked."""
