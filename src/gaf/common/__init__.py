"""What the library and the lab share: errors, files, texts, the reading of strangers' files."""
