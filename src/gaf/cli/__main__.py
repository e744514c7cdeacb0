"""``python -m gaf.cli`` is the command ``gaf``."""

from gaf_command import main

main()
