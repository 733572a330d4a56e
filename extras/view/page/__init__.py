"""The pages of the lab: the templates and what they show, for a file and for a server."""
