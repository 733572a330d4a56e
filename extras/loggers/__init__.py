"""Loggers: the figures of a run where experiments are kept."""
