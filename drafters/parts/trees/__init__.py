"""The shapes that drafts can have, and how a config writes them."""
