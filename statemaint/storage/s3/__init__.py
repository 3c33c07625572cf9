"""S3, or any server that speaks its protocol; `probe` finds out what a server supports."""
