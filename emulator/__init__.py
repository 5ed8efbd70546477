"""Fake streamer replicas that break on command. Imports nothing from `gateway`."""
