"""What a checkpoint is made of: ids, file names, chains, commits, findings, policy. Pure."""
