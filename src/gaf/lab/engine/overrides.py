"""``key=value`` changes to a config, as the command line takes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from gaf.common.errors import GafError
from gaf.lab.engine.config import RunConfig, explain, keys, read, unknown_key

FREE = ("task.data_options.", "task.model_options.", "task.options.")  # dicts of a task's own keys
LENGTHS = ("epochs", "iterations")  # a run has one of them


def override(config: RunConfig, changes: Sequence[str]) -> RunConfig:
    """The config with changes such as ``"optimizer.lr=0.05"`` made, all of them at once.

    A value is read as JSON (``0.05``, ``true``, ``null``, ``[0.9, 0.99]``), and as text where it is not
    JSON or the key wants text. Setting ``iterations`` unsets ``epochs``, and the other way round; setting
    both is refused.

    Example:
        >>> config = read({"name": "a", "task": {"data": "digits", "model": "mlp"}, "epochs": 3})
        >>> override(config, ["optimizer.lr=0.05", "task.model_options.depth=8"]).optimizer.lr
        0.05
    """
    data, lengths = config.model_dump(mode="json"), set()
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise GafError(f"{change!r} is not key=value")
        key = key.strip()
        value = _value(key, text)
        _set(data, key, value)
        if key in LENGTHS and value is not None:
            lengths.add(key)
            data.update({other: None for other in LENGTHS if other != key})
    if len(lengths) > 1:
        raise GafError("set epochs or iterations, one of the two")
    return read(data)


def _value(key: str, text: str) -> Any:
    """The text as the key wants it."""
    try:
        value = json.loads(text)
    except ValueError:  # no JSON, or a number of thousands of digits
        value = text
    if key.startswith(FREE):
        return value
    if key not in keys():
        raise GafError(unknown_key(key))
    complaint = _complaint(key, value)
    if complaint and _complaint(key, text):
        raise GafError(complaint)
    return text if complaint else value  # text: a name made of digits


def _complaint(key: str, value: Any) -> str:
    """What is wrong with a value by itself, '' where nothing is."""
    kind: type[BaseModel] = RunConfig
    *path, last = key.split(".")
    for part in path:
        kind = kind.model_fields[part].annotation  # type: ignore[assignment]
    field = kind.model_fields[last]
    wanted: Any = Annotated[field.annotation, field]  # type: ignore[valid-type]
    try:
        TypeAdapter(wanted, config=ConfigDict(strict=True)).validate_json(json.dumps(value))
    except ValidationError as error:
        return explain(error, within=key)
    return ""


def _set(data: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    inner = data
    for part in path:
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            raise GafError(f"{key!r} goes into {part!r}, which holds a value")
    inner[last] = value
