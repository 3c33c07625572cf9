"""The steps that a repair or a rollback would take. Pure; `recover` proves them."""
