"""The fixtures of models that the native library runs."""

from tiny.native import native_model, older_library, short_library

__all__ = ["native_model", "older_library", "short_library"]
