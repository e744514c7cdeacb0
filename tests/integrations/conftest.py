"""The cases run in processes of their own (inside.py): they import JAX and register functions."""

collect_ignore_glob = ["*_cases.py"]
