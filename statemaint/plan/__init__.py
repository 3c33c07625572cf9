"""The decision: from a checkpoint, a policy and a time, all of them arguments, to actions. Pure."""
