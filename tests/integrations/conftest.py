"""The cases run in processes of their own (inside.py); here they would import JAX or register their functions."""

collect_ignore_glob = ["*_cases.py"]
