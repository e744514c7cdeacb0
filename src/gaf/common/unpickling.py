"""Pickles from anywhere: nothing in them is run, and no number in them sizes memory.

A pickle is a program; what it may call is what :class:`Unpickler` hands out, and a subclass names it. Refused
here is what no data needs and what can exhaust the process: nested tuples as keys, whose hash overflows the
stack; lengths that nothing in the file backs; the same text handed to call after call.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from gaf.common.errors import GafError


class Refused(GafError):
    """A file with more than data in it, or with other data than it should have; the message is a sentence."""


# The Python implementation: the one in C sizes its table by a number in the file, up to 64 GB.
_InPython: Any = vars(pickle)["_Unpickler"]


class _Counted(dict[int, Any]):
    """The instructions of a pickle, of which at most ``left`` are carried out."""

    def __init__(self, instructions: dict[int, Any], left: int) -> None:
        super().__init__(instructions)
        self.left = left

    def __getitem__(self, code: int) -> Any:
        self.left -= 1
        if self.left < 0:
            raise Refused("it has more instructions than such a file needs")
        return super().__getitem__(code)


class Unpickler(_InPython):
    """An unpickler that hands out its ``names``; subclasses say which, what may be filled and what be a key.

    Args:
        file: to read, from where it is.
        size: bytes of the file; all that calls are handed is together no longer.
        instructions: the most that are carried out, at up to 150 bytes of memory each; unset: any number.
        **options: of Python's own, such as ``encoding``.
    """

    def __init__(
        self, file: Any, size: int, instructions: int | None = None, **options: Any
    ) -> None:
        super().__init__(file, **options)
        self.size = self.left = size
        if instructions is not None:
            self.dispatch = _Counted(self.dispatch, instructions)  # type: ignore[misc]

    # what a file may ask for, by module and name: none
    names: ClassVar[Mapping[tuple[str, str], Any]] = MappingProxyType({})

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.names:
            raise Refused(f"it asks for {module}.{name}")
        return self.names[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise Refused("it asks for an object outside the file")

    keys: ClassVar[str] = "neither text nor a number"  # what a key must not be, for the message

    def may_be_key(self, key: Any) -> bool:
        """Whether a value may be hashed."""
        return isinstance(key, str | bytes | int)

    def check_keys(self, keys: Sequence[Any]) -> None:
        """Before they are hashed."""
        if not all(map(self.may_be_key, keys)):
            raise Refused(f"a key that is {self.keys}")

    def load_setitem(self) -> None:
        self.check_keys(self.stack[-2:-1])
        super().load_setitem()

    def load_setitems(self) -> None:
        self.check_keys(self.stack[::2])
        super().load_setitems()

    def load_dict(self) -> None:
        self.check_keys(self.stack[::2])
        super().load_dict()

    def spend(self, arguments: Any) -> None:
        """Refuse to hand more to calls than the file holds: a text of it could go to every one."""
        if type(arguments) is not tuple:
            raise Refused("a call without a tuple of arguments")
        kinds = (str, bytes, bytearray, list, tuple)
        self.left -= len(arguments) + sum(
            len(argument) for argument in arguments if type(argument) in kinds
        )
        if self.left < 0:
            raise Refused("it hands the same bytes to call after call")

    def load_reduce(self) -> None:
        self.spend(self.stack[-1])
        super().load_reduce()

    def load_newobj(self) -> None:
        if self.stack[-1] != ():  # what is made by its class is filled by BUILD
            raise Refused("it makes an object from arguments")
        super().load_newobj()

    def check_build(self, thing: Any, state: Any) -> None:
        """Refuse to fill something, before it is; here all of it."""
        raise Refused("it changes something")

    def load_build(self) -> None:
        self.check_build(*self.stack[-2:])
        super().load_build()

    def load_bytearray8(self) -> None:
        """Python would fill as much memory as the length says before it reads on."""
        length = int.from_bytes(self.read(8), "little")
        if length > self.size:
            raise Refused("a bytearray longer than the file")
        self.append(bytearray(self.read(length)))

    def no_set(self) -> None:
        raise Refused("it holds a set")

    def no_object(self) -> None:
        raise Refused("it makes an object in a way that no such file does")

    dispatch: ClassVar[dict[int, Any]] = {
        **_InPython.dispatch,
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
        pickle.DICT[0]: load_dict,
        pickle.REDUCE[0]: load_reduce,
        pickle.NEWOBJ[0]: load_newobj,
        pickle.BUILD[0]: load_build,
        pickle.BYTEARRAY8[0]: load_bytearray8,
        **dict.fromkeys((pickle.EMPTY_SET[0], pickle.ADDITEMS[0], pickle.FROZENSET[0]), no_set),
        **dict.fromkeys((pickle.INST[0], pickle.OBJ[0], pickle.NEWOBJ_EX[0]), no_object),
    }
