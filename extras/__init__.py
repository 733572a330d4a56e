"""What comes with Outrider beyond its core, each a plugin of the same hooks as third parties'."""
