"""The papers' predictions: tables of expected tokens and speedups, and the papers' own figures."""
