"""The file that names the queries to maintain, from which the Airflow DAGs are made.

    defaults: {min_deltas_for_snapshot: 10, grace: 1h}     the policy of every query
    pushgateway: http://pushgateway:9091                   or textfile: /var/lib/node_exporter
    queries:
      hourly_revenue:
        checkpoint: /data/checkpoints/hourly_revenue
        schedule: "@hourly"
        policy: {min_batches_to_retain: 50}                on top of the defaults

Loading it reads no storage. `schema.json` is its JSON schema, in docs/ as well.
"""
