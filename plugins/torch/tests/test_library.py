"""A libdit_torch.so that does not fit is refused in words."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import needs
import ranks
from dit_torch import _library
from dit_torch._library import Library
from dit_torch.exchanges import Exchanges
from dit_torch.group import Group


def test_a_library_of_another_torch_is_named(tmp_path: Any) -> None:
    wrong = tmp_path / "libdit_torch.so"
    wrong.write_bytes(b"no library")
    with pytest.raises(RuntimeError, match="built with this torch") as told:
        Library(wrong)
    assert "file too short" in str(told.value)
    wrong.with_suffix(".torch").write_text("1.9.1+cpu\n")
    with pytest.raises(RuntimeError, match=r"built with torch 1\.9\.1\+cpu, and this is torch") as told:
        Library(wrong)
    assert torch.__version__ in str(told.value)
    wrong.with_suffix(".torch").write_text(torch.__version__)  # the same, and still no library
    with pytest.raises(RuntimeError, match="file too short"):
        Library(wrong)


def test_a_library_of_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    file = _library.path()
    if file is None:
        pytest.skip("libdit_torch.so is not there")
    words = f"version {_library.VERSION}, expected 99; build and install dit_torch again"
    monkeypatch.setattr(_library, "VERSION", 99)
    with pytest.raises(RuntimeError, match=words):
        Library(file)


def _asks_for_cuda() -> str:
    group = Group()
    exchanges = Exchanges(group, 0)
    exchanges.check(torch.device("cpu"))
    try:
        exchanges.check(torch.device("cuda", 0))  # as enable() of a model that is there
    except RuntimeError as error:
        return str(error)
    finally:
        group.close()
    return ""


@needs.LIBRARY
def test_a_library_without_cuda_says_how_to_build_it_with_cuda() -> None:
    for told in ranks.run(2, _asks_for_cuda):
        if "as this build has no CUDA" not in told:
            pytest.skip("this library was built with CUDA")
        assert "nvcc on the PATH" in told and "-C cmake.define.TAPA_CUDA=ON ./plugins/torch" in told
