"""What the command ``gaf`` starts with: ``import gaf`` imports torch, and Ctrl-C may come meanwhile."""

import sys


def main() -> None:
    """Run the command with the arguments of this process, and exit."""
    try:
        from gaf.cli import main

        main()
    except KeyboardInterrupt:
        sys.exit(130)  # 128 + SIGINT
