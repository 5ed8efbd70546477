"""Shared by tests: real processes, an adversarial replica, and a client with its hands on the wire."""
