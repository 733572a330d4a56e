"""Engines for GPUs: a pass of a few tokens is one launch, where its kernels would be a thousand.

Start with `static_passes`, which says what the two engines share: `compiled` by torch.compile, and
`recorded`, whose kernels are the modules' own. Both read a `static_cache`, whose buffers stay in
their place.
"""
