"""What names and listings alone say is wrong. Pure."""
