"""A local or mounted disk."""
