"""Finding objects in images: boxes, and what a detector is asked for and judged by.

Boxes are float tensors ``[..., 4]`` of edges (left, top, right, bottom), mostly as shares of the image, so
that resizing it leaves them alone; ``right - left`` is the width.
"""
