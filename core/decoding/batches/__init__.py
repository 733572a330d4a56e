"""Several texts at once: they share passes, and come and go.

Start with `continuous_batch`, the loop over the rounds of several texts. It asks a
`batch_target`, which can be made of any target.
"""
