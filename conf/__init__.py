"""The Hydra configs, one folder a group; drafters, rules and targets make their own."""
