"""Runs models on CPUs: packed weights, and a library in C that runs a decoder's layers.

Start with `engine`, which `plugin` registers. `native_pass` runs a decoder of Llama's kind in the
library that `library` compiles from `c/`, and `packed_batch` many sequences at once.
`packed_linear` and `packed_matrix` hold weights in the layout of the processor's kernels,
`quantized` in eight or four bits.
"""
