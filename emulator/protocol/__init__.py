"""PURE. The streaming protocol as a replica speaks it: the messages, and what a healthy replica answers."""
