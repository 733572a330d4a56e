"""The configs of this product."""
