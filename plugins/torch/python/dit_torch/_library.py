"""libdit_torch.so by ctypes: what include/dit_torch.h declares. Its operators are torch.ops.dit."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .processes import numbering

VERSION = 10  # DIT_TORCH_VERSION
IMAGE_FIRST, TEXT_REPLICATED = 1, 2  # dit_layout_flags
ELEMENT_TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
MEMORY_KINDS = {"cpu": 0, "cuda": 1}
_NO_CUDA = "as this build has no CUDA"
_INSTALL = (
    "; build and install dit_torch again with nvcc on the PATH: pip install --no-build-isolation "
    "-C cmake.define.TAPA_CUDA=ON ./plugins/torch"
)


class Bootstrap(ctypes.Structure):
    """dit_bootstrap of dit/bootstrap.h."""

    ALLGATHER = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
    )
    _SIZES = ctypes.POINTER(ctypes.c_size_t)
    ALLTOALLV = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, _SIZES, _SIZES, ctypes.c_void_p, _SIZES, _SIZES
    )
    LAST_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("rank", ctypes.c_int),
        ("size", ctypes.c_int),
        ("allgather", ALLGATHER),
        ("alltoallv", ALLTOALLV),
        ("user", ctypes.c_void_p),
        ("node", ctypes.c_char_p),
        ("make_part", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("last_error", LAST_ERROR),
        ("reach", ctypes.c_char_p),
        ("on_device", ctypes.c_int),
        ("device", ctypes.c_int),
    )


class Attention(ctypes.Structure):
    """dit_torch_attention."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("batch", ctypes.c_int64),
        ("text_tokens", ctypes.c_int64),
        ("image_tokens", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("kv_heads", ctypes.c_int64),
        ("head_dim", ctypes.c_int64),
        ("flags", ctypes.c_uint),
        ("element_type", ctypes.c_int),
        ("memory_kind", ctypes.c_int),
        ("device", ctypes.c_int),
        ("slots", ctypes.c_int),
        ("side_stream", ctypes.c_int),
        ("policy", ctypes.c_char_p),
        ("off", ctypes.c_char_p),
        ("layers", ctypes.c_int),
        ("steps", ctypes.c_int),
        ("branches", ctypes.c_int),
    )


class Trial(ctypes.Structure):
    """dit_torch_trial."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("pays", ctypes.c_int),
        ("exact_seconds", ctypes.c_double),
        ("policy_seconds", ctypes.c_double),
    )


def path() -> Path | None:
    """Where libdit_torch.so lies: as DIT_TORCH_LIBRARY says ("none": do without), or beside this file."""
    named = os.environ.get("DIT_TORCH_LIBRARY")
    if named is not None:
        if named in ("", "none"):
            return None
        if not Path(named).is_file():
            raise ValueError(f"DIT_TORCH_LIBRARY = {named}: no such file; expected libdit_torch.so")
        return Path(named)
    beside = Path(__file__).parent
    for place in (beside, beside / "lib"):
        if (place / "libdit_torch.so").is_file():
            return place / "libdit_torch.so"
    return None


def call(operator: Any, name: str, *arguments: Any, **named: Any) -> Any:
    """An operator of the library.

    :param name: of the exchange, or of the group
    """
    if torch.compiler.is_compiling():
        return operator(*arguments, **named)
    try:
        return operator(*arguments, **named)
    except RuntimeError as error:
        words = explained(str(error), name)
        if words == str(error) or type(error) is not RuntimeError:  # as without memory
            raise
        raise RuntimeError(words) from error


def explained(words: str, name: str) -> str:
    """What the library says of a group or an exchange, with what it cannot know."""
    if _NO_CUDA in words:
        words += _INSTALL
    # Groups of some ranks, and their exchanges, have names that begin with these.
    ranks = re.match(r"r(\d+(-\d+)*)", name)
    numbers = numbering([int(rank) for rank in ranks[1].split("-")]) if ranks else ""
    words = words if numbers in words else words + numbers
    if "has not ended after" in words or "did not arrive at" in words:
        words += (
            "; expected all ranks to come to the same exchanges: with the same inputs, and with nothing that "
            "decides differently on them (a forward that was patched, a hook, a cache)"
        )
    return words


def _built_with(file: Path) -> str:
    """The version of the torch that the library was built with: its build writes it beside it. Else ""."""
    written = file.with_suffix(".torch")
    return written.read_text().strip() if written.is_file() else ""


def _minor(version: str) -> str:
    """2.15 of 2.15.0+cpu: what a library of C++ depends on."""
    return ".".join(version.split(".")[:2])


class Library:
    """The set-up functions; failures raise RuntimeError with the library's words."""

    def __init__(self, file: Path) -> None:
        of = _built_with(file)
        here = _minor(torch.__version__)
        if of and _minor(of) != here:
            raise RuntimeError(
                f"{file} was built with torch {of}, and this is torch {torch.__version__}: "
                f"install a wheel of dit_torch for torch {here}, or build and install dit_torch again"
            )
        try:
            torch.ops.load_library(str(file))
            self._functions = ctypes.CDLL(str(file))
            version = self._functions.dit_torch_version()
        except (OSError, AttributeError) as error:
            why = f" ({error.__cause__})" if error.__cause__ is not None else ""  # the loader's words
            known = f", built with torch {of}" if of else ""
            raise RuntimeError(
                f"{file}{known}: {error}{why}; expected a libdit_torch.so that was built with this torch, "
                f"{torch.__version__}: build and install dit_torch again"
            ) from error
        if version != VERSION:
            raise RuntimeError(
                f"{file}: version {version}, expected {VERSION}; build and install dit_torch again"
            )
        self._functions.dit_torch_last_error.restype = ctypes.c_char_p

    def _call(self, function: str, name: str, *arguments: Any) -> None:
        """
        :param name: of the exchange, or of the group
        """
        if getattr(self._functions, function)(name.encode(), *arguments) != 0:
            said = self._functions.dit_torch_last_error()
            words = (said or b"").decode(errors="replace") or f"{function} failed"
            raise RuntimeError(explained(words, name))

    def open(self, group: str, bootstrap: Bootstrap, timeout: float, config: str = "") -> None:
        self._call(
            "dit_torch_open",
            group,
            ctypes.byref(bootstrap),
            ctypes.c_double(timeout),
            config.encode() or None,
        )

    def close(self, group: str) -> None:
        self._call("dit_torch_close", group)

    def give_up(self, group: str, why: str) -> None:
        self._call("dit_torch_give_up", group, why.encode() or b"-")

    def restart(self, group: str) -> None:
        """Collective."""
        self._call("dit_torch_restart", group)

    def check(self, group: str) -> None:
        """Raises where an exchange on a GPU has failed, as far as that is known now."""
        self._call("dit_torch_check", group)

    def make_exchange(self, name: str, group: str, attention: Attention) -> None:
        attention.struct_size = ctypes.sizeof(Attention)
        self._call("dit_torch_exchange", name, group.encode(), ctypes.byref(attention))

    def try_policy(self, group: str, attention: Attention) -> Trial:
        """Collective."""
        attention.struct_size = ctypes.sizeof(Attention)
        trial = Trial(struct_size=ctypes.sizeof(Trial))
        self._call("dit_torch_try_policy", group, ctypes.byref(attention), ctypes.byref(trial))
        return trial

    def exact_time(self, group: str, attention: Attention, enough: float) -> float:
        """Collective."""
        attention.struct_size = ctypes.sizeof(Attention)
        seconds = ctypes.c_double()
        arguments = (ctypes.byref(attention), ctypes.c_double(enough), ctypes.byref(seconds))
        self._call("dit_torch_exact_time", group, *arguments)
        return seconds.value

    def wire_bytes(self, group: str, attention: Attention) -> int:
        """What a policy would keep from step to step on this rank. Collective."""
        attention.struct_size = ctypes.sizeof(Attention)
        count = ctypes.c_uint64()
        self._call("dit_torch_wire_bytes", group, ctypes.byref(attention), ctypes.byref(count))
        return count.value

    def free_exchange(self, name: str) -> None:
        self._call("dit_torch_exchange_free", name)

    def begin_step(self, name: str, step: int, branch: int) -> None:
        self._call("dit_torch_begin_step", name, ctypes.c_int(step), ctypes.c_int(branch))

    def reset(self, name: str) -> None:
        self._call("dit_torch_reset", name)

    def phase(self, name: str) -> int:
        found = ctypes.c_int()
        self._call("dit_torch_phase", name, ctypes.byref(found))
        return found.value

    def record(self, name: str) -> None:
        self._call("dit_torch_record", name)

    def recorded(self, name: str, failed: bool) -> int:
        recording = ctypes.c_int()
        self._call("dit_torch_recorded", name, ctypes.c_int(failed), ctypes.byref(recording))
        return recording.value

    def replayed(self, name: str, recording: int) -> None:
        self._call("dit_torch_replayed", name, ctypes.c_int(recording))

    def _text(self, function: str, name: str) -> str:
        length = ctypes.c_size_t(0)
        write: Callable[..., None] = functools.partial(self._call, function, name)
        write(None, ctypes.c_size_t(0), ctypes.byref(length))
        text = ctypes.create_string_buffer(length.value + 1)
        write(text, ctypes.c_size_t(length.value + 1), None)
        return text.value.decode(errors="replace")

    def one_node(self, group: str) -> bool:
        """Whether all ranks are on one, and their GPUs reach each other."""
        found = ctypes.c_int()
        self._call("dit_torch_one_node", group, ctypes.byref(found))
        return found.value == 1

    def report(self, exchange: str) -> dict[str, Any]:
        return json.loads(self._text("dit_torch_report", exchange))

    def describe(self, group: str) -> str:
        return self._text("dit_torch_describe", group)


@functools.cache
def library() -> Library | None:
    """The library, loaded once; None where it was not built, and the reference is used."""
    file = path()
    return None if file is None else Library(file)
