"""One run of a user's own script: what is asked of it, the optimizer it is to use, and what it reports."""
