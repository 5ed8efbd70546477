"""Where Streamhold runs: containers, Kubernetes, AWS. The gateway and the emulator know nothing of it."""
