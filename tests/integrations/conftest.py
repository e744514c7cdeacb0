"""The cases run in processes of their own (inside.py): one collected here would import JAX or register its functions."""

collect_ignore_glob = ["*_cases.py"]
