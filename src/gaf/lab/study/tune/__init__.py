"""WHICH VALUES: the paper's steps (a) to (d), automated, and a comparison that checks what they recommend."""
