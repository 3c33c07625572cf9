"""A neglected streaming job in miniature, and Spark itself as the judge of its maintenance."""
