"""Finding objects in images: boxes, what a detector is asked for and judged by, and pictures of the result.

Boxes are float tensors ``[..., 4]`` of edges (left, top, right, bottom), mostly as shares of the image, so
that resizing it leaves them alone; ``right - left`` is the width.
"""
