"""The published optimizers of the family, written from their sources: references to compare with."""
