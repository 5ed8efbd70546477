"""Streamhold's gateway."""
