"""One text, or several, on the command line; start with `command`."""
