"""Random combinations of targets, drafters, rules and settings, held against what is promised."""
