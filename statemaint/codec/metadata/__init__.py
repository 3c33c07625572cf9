"""The query's own files: metadata, offsets, commits, operators and schemas."""
