"""S3, or any server that speaks its protocol; `probe` determines what a server supports."""
