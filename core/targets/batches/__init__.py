"""Models of transformers that read several texts in one pass, on one cache or on layers of rows."""
