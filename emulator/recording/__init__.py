"""What passed between clients and a replica: written down, and served again."""
