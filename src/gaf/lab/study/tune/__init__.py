"""WHICH VALUES: the paper's steps (a) to (d), automated, and a race that checks what they recommend."""
