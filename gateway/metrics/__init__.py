"""What the gateway measures of itself, for the eyes of others."""
