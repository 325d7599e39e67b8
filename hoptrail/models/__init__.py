"""Language and sentence models: finding, fetching and running them."""
