"""Replicas listed in a Cloud Map of their own: AWS's API on this machine, played by moto."""
