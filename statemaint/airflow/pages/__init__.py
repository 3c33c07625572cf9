"""The pages in Airflow's UI: all queries, one query, the files of one partition.

`records` and `sources` read Airflow's database, `app` has the routes and reads checkpoints. The
rest is pure: `fleet`, `query` and `timeline` make the contents of the pages, `render` their HTML.
"""
