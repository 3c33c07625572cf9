"""Which steps a repair or a rollback would take. Pure; they are proved in `recover`."""
