"""The parts of a checkpoint: ids, file names, chains, commits, proofs, findings, policy. Pure.

No bytes are parsed here (`codec`), and nothing is decided (`plan`).
"""
