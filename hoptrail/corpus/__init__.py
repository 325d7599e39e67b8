"""Documents, passages, and the store and indexes that hold them."""
