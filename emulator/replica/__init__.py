"""One replica: its port, its connections, its sessions, and whatever runs it."""
