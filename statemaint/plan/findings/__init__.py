"""What names and listings alone say is wrong. Pure. What takes reading files belongs in `audit`."""
