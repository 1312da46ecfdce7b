"""diffusers' hooks that leave out attention know by a processor's class what it returns then."""

from __future__ import annotations

from typing import Any

try:
    from diffusers.hooks._helpers import AttentionProcessorRegistry
except ImportError:  # a diffusers without such hooks
    AttentionProcessorRegistry = None  # type: ignore[assignment, misc]


def know(before: dict[str, Any], processors: dict[str, Any]) -> None:
    """Classes of processors are registered as those that they take the place of, by the names of modules."""
    if AttentionProcessorRegistry is None:
        return
    for name, processor in processors.items():
        cls, original = type(processor), type(before[name])
        if cls is original or cls in AttentionProcessorRegistry._registry:
            continue
        try:
            AttentionProcessorRegistry.register(cls, AttentionProcessorRegistry.get(original))
        except ValueError:
            continue  # nor does diffusers know the original
