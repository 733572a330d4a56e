"""The families that come with the package, one file each, all of them ordinary plugins.

Each file holds a `Drafter`, and `plugin.py` registers them under their names; `random.py` is the
shortest. Those with a trained network hold the network too, a `TrainedNetwork` of
`outrider.drafters.parts.networks.trained`; the weights for SmolLM2 are in `weights/`.
"""
