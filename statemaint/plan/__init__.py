"""The decision: from a checkpoint, a policy and a time to a list of actions. Pure.

No storage, no clock and no SDK: everything that a decision depends on is an argument.
"""
