"""Marks of tests that need something which may not be there."""

from __future__ import annotations

import pytest

from dit_torch._library import library

LIBRARY = pytest.mark.skipif(library() is None, reason="libdit_torch.so is not there")
