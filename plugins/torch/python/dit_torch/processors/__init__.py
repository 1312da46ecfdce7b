"""Attention processors, a file for each model family."""

from .family import Family, check_norms, family_of, processors_of, supported

__all__ = ["Family", "check_norms", "family_of", "processors_of", "supported"]
