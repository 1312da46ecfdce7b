"""A tiny model, and inputs for it, of each transformer of diffusers."""

from . import a_c, d_h, i_l
from .table import TINY, Tiny, dit_classes

__all__ = ["TINY", "Tiny", "a_c", "d_h", "dit_classes", "i_l"]
