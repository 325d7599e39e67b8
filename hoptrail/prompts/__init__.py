"""One file per prompt: its text, its typed output, its version."""
