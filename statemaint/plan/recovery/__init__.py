"""What repair and rollback would do. Pure."""
