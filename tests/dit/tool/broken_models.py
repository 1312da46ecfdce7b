"""Models and files with one thing wrong each, made from a sound model."""

import json
import os
import shutil
import struct
from collections.abc import Callable
from typing import Any

import ground


def copy(name: str) -> str:
    """A copy of the sound model's folder, to be broken."""
    folder = ground.path(name)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ground.MODEL, folder)
    return folder


def with_config(name: str, change: Callable[[dict[str, Any]], str | None]) -> str:
    """`change` gets config.json as a value and changes it, or returns the file's text."""
    folder = copy(name)
    with open(f"{folder}/config.json", encoding="utf8") as file:
        config = json.load(file)
    text = change(config)
    with open(f"{folder}/config.json", "w", encoding="utf8") as file:
        file.write(text if isinstance(text, str) else json.dumps(config))
    return folder


def with_weights(name: str, change: Callable[[dict[str, Any], bytes], tuple[dict[str, Any], bytes] | bytes]) -> str:
    """`change` gets header and data of model.safetensors; returns them, or the file's bytes."""
    folder = copy(name)
    with open(f"{folder}/model.safetensors", "rb") as file:
        content = file.read()
    size = struct.unpack("<Q", content[:8])[0]
    result = change(json.loads(content[8 : 8 + size]), content[8 + size :])
    if isinstance(result, tuple):
        header = json.dumps(result[0]).encode()
        result = struct.pack("<Q", len(header)) + header + result[1]
    with open(f"{folder}/model.safetensors", "wb") as file:
        file.write(result)
    return folder


def cut_short(name: str, share: float = 0.5) -> str:
    """model.safetensors without its end."""
    folder = copy(name)
    file = f"{folder}/model.safetensors"
    os.truncate(file, int(os.path.getsize(file) * share))
    return folder


def safetensors(name: str, tensors: dict[str, tuple[str, list[int], bytes]]) -> str:
    """A file of the given {name: (dtype, shape, bytes)}."""
    header, data = {}, b""
    for key, (dtype, shape, content) in tensors.items():
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    with open(ground.path(name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return name
