"""Carries out plans: snapshots, deletions, trash, ledger and lease. It chooses no state file.

Maintenance, repair, rollback and undo write to a query's files only through this package;
`provider` writes to the checkpoint of a stopped query.

Whatever writes or deletes raises `LeaseLostError` once another run holds the lease, or it was
ended; then nothing more happens. `Superseded` is raised when a file that an action relies on was
replaced or is missing since planning, a `CheckpointError` when it is damaged or holds another
state, and `UnreadableError` when the query might be unable to read one.
"""
