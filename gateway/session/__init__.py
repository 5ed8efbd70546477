"""One client's session: its two sides, the pure rules between them, and the shell that moves the bytes."""
