"""Engines for GPUs: a pass of a few tokens is one launch, where its kernels would be a thousand.

Start with `engines`: one compiles by torch.compile, the other records the modules' own kernels.
Both read a `static_cache`, whose buffers stay in place.
"""
