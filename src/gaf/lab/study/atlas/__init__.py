"""A suite of comparisons: where such rules help, and where not."""
