"""The command ``gaf``: one file a command, each a thin call."""
