"""The control API: what it says, how it waits, and the server that it runs in."""
