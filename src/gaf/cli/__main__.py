"""``python -m gaf.cli`` is the command ``gaf``."""

from gaf.cli import main

main()
