"""Policies learned by their own episodes."""
