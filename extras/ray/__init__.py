"""One comparison on several workers of Ray."""
