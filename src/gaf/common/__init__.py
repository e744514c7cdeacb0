"""What the library and the lab share: errors, files, names that are near."""
