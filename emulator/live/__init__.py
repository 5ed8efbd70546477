"""What a person at a terminal sees of running replicas, a few times a second."""
