"""Checks what is promised on random combinations of targets, drafters, rules and settings.

An `Example` describes one combination in plain values. `run.run_example` runs it and raises
AssertionError if a promise is broken: the greedy text is the target's own, a lossless rule keeps
the distribution, counts add up, a batch writes the same texts as single runs, an interrupted
drafter recovers. `strategies` draws examples with hypothesis, and `campaign` runs many of them.

May import everything below the lab. Start with `run`.
"""
