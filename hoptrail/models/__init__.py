"""Language and embedding models: which one, where it comes from, how it is called."""
