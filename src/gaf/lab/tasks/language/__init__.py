"""The next character of a text."""
