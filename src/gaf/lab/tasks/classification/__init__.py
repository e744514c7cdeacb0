"""Classes of images and vectors."""
