"""Attention processors, a file for each model family."""

from .family import Family, family_of, processors_of, supported

__all__ = ["Family", "family_of", "processors_of", "supported"]
