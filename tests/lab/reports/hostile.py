"""Files as a stranger may hand them on: one value of a JSON tree replaced, wherever its like stands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

# What stands in the place of a value, as JSON text: json.dumps cannot write some of it.
VALUES = {
    "missing": "",
    "null": "null",
    "true": "true",
    "text": '"\\u001b[31m</script><!--[red]"',
    "negative": "-1",
    "beyond float": "1e400",
    "NaN": "NaN",
    "inf in text": '"inf"',
    "largest float": "1.7e308",
    "smallest float": "5e-324",
    "long number": "1" * 400,
    "empty list": "[]",
    "list of lists": "[[[]]]",
    "empty object": "{}",
    "object": '{"a": "b"}',
    "half a character": '"\\ud800"',
    "deep": "[" * 2000 + "]" * 2000,
    "long text": json.dumps("x" * (1 << 18)),
}

Place = tuple[str, ...]  # keys; "*" stands for every entry of a list


def places(tree: Any, within: Place = ()) -> Iterator[Place]:
    """Every key of a tree, those of the entries of a list once; the whole is ()."""
    yield within
    if isinstance(tree, dict):
        for number, (key, value) in enumerate(tree.items()):
            if number < 2 or key.isidentifier():  # the bins of a histogram are all alike
                yield from places(value, (*within, key))
    elif isinstance(tree, list):
        found = dict.fromkeys(place for value in tree for place in places(value, (*within, "*")))
        yield from found


def changed(tree: Any, place: Place, text: str, only_first: bool = False) -> str:
    """The tree as JSON with another value at a place, of which a list has many or ``only_first``."""
    mark = "\0here\0"

    def walk(value: Any, place: Place) -> Any:
        if not place:
            return mark
        key, rest = place[0], place[1:]
        if isinstance(value, list) and key == "*":
            some = [
                walk(each, rest) if i == 0 or not only_first else each
                for i, each in enumerate(value)
            ]
            return [each for each in some if text or each != mark]
        if not isinstance(value, dict) or key not in value:
            return value
        new = {**value, key: walk(value[key], rest)}
        return new if text or new[key] != mark else {k: v for k, v in new.items() if k != key}

    return json.dumps(walk(tree, place)).replace(json.dumps(mark), text)
