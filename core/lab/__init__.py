"""Measures drafters side by side, on the same prompts and the same prefixes.

Start with `measuring.compare`, which turns prompts into questions and yields a measurement for each
drafter, question and protocol. `measuring.overlap` computes alpha from distributions;
`measuring.trial` decodes and times. `statistics` turns measurements into rates with intervals;
`runs` keeps measurements on disk as they are made, and sums them up.
"""
