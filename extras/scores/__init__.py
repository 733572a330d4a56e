"""Scores of answers against the references and tests that a data set comes with."""
