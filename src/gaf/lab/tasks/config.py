"""What is learned, as a frozen value: the part of a run's config that tasks read."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from gaf.common.errors import GafError

Share = Annotated[float, Field(ge=0, lt=1)]


class Config(BaseModel):
    """Frozen, strict, and closed to keys it does not know.

    ``noun`` is what a sentence about the file calls it.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
    noun: ClassVar[str] = "config"


class TaskConfig(Config):
    """What is learned: a built-in kind with data and model by name, or a user's own function.

    ``kind="my_module:make_task"`` calls ``make_task(**options)``; the other fields are then unused.
    """

    kind: str = "classification"
    data: str = ""
    data_options: dict[str, JsonValue] = {}
    model: str = ""
    model_options: dict[str, JsonValue] = {}
    label_smoothing: Share = 0.0
    options: dict[str, JsonValue] = {}

    @model_validator(mode="after")
    def _whole(self) -> TaskConfig:
        if self.own:
            for key in ("data", "model", "data_options", "model_options", "label_smoothing"):
                if getattr(self, key):
                    raise GafError(
                        f"{key} belongs to built-in tasks; give {self.kind} its own settings in options"
                    )
        else:
            if self.options:
                raise GafError("options belong to tasks of your own, kind='my_module:make_task'")
            if not self.data or not self.model:
                raise GafError(f"a {self.kind} task needs the names of its data and its model")
        return self

    @property
    def own(self) -> bool:
        """Whether the task is made by a function of the user's."""
        return ":" in self.kind
