"""Measures what a session costs in the gateway, beside a baseline bridge, HAProxy, nginx and no proxy at all.

Run by scripts/bench; docs/benchmarks.md says how each figure comes about.
"""
