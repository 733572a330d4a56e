"""Runs as pages, figures and tables for notebooks: `load` reads runs into data frames."""

from outrider.extras.view.frames import Frames, load

__all__ = ["Frames", "load"]
