"""What the command ``gaf`` starts with: ``import gaf`` imports torch, which takes seconds.

What is missing is said before, and Ctrl-C may come meanwhile.
"""

import sys

MISSING = (
    "gaf: the command needs {}, which is not installed: pip install 'activated-gradients[cli]'"
)


def main() -> None:
    """Run the command with the arguments of this process, and exit."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("typer", "rich"):
            raise
        sys.exit(MISSING.format(package))
    try:
        from gaf.lab.cli.app import main

        main()
    except KeyboardInterrupt:
        sys.exit(130)  # 128 + SIGINT
