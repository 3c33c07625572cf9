"""The compressions of state files: each stream is a sequence of blocks (`base`)."""
