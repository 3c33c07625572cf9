"""Reading: from a storage to a `Checkpoint`. Nothing here decides or writes.

File names of a store are parsed here, by `model.files`; no later step handles them as raw strings.
"""
