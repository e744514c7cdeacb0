"""``python -m gaf.lab.cli`` is the command ``gaf``."""

from gaf_command import main

main()
