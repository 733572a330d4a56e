"""Training: recipes that fit tables, policies and drafters."""
