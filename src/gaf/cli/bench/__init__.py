"""``gaf bench``: what a step costs, next to torch's own and to the speed of memory, in one run."""

from gaf.cli.bench.command import bench

__all__ = ["bench"]
