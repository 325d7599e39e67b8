"""One file per retrieval method, and the registry of them."""
