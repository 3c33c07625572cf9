"""`python -m statemaint.spark VERB --queries FILE`; `spark-submit` takes this file as well."""

from statemaint.cli.main import run
from statemaint.spark.program import program

if __name__ == "__main__":
    run(program, "python -m statemaint.spark")
