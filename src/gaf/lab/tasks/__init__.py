"""What is trained: a task brings a model, data, a loss and a score. The engine knows no more of it."""

from gaf.lab.tasks.base import Task
from gaf.lab.tasks.load import load_task

__all__ = ["Task", "load_task"]
