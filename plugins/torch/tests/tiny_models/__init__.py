"""A tiny model, and inputs for it, of each transformer of diffusers."""

from . import a_c, d_h, i_l, m_q, r_z
from .table import NOT_DIT, TINY, Tiny, dit_classes, installed

__all__ = ["NOT_DIT", "TINY", "Tiny", "a_c", "d_h", "dit_classes", "i_l", "installed", "m_q", "r_z"]
