"""Plans, events, and the runtime that turns one into the other."""
