"""Finds out whether an installation and its machine are well."""
