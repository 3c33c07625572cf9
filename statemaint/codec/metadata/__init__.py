"""The query's own files: metadata, offsets, commits, operator metadata, schemas and unique ids."""
