"""S3, or any server that speaks its protocol. What a server cannot do is found out by `probe`."""
