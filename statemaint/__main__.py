"""Runs the program as `python -m statemaint`."""

from statemaint.cli import main

if __name__ == "__main__":
    main()
