"""Examples of each verb: in its `--help`, in docs/cli.md, and run by a test."""

CHECKPOINT = "/data/checkpoints/hourly_revenue"
"""The checkpoint of the examples, and `hourly_revenue` its name in the queries file."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "apply": (("carry out a reviewed plan", "statemaint apply plan.json"),),
    "completion": (("in ~/.bashrc", 'eval "$(statemaint completion bash)"'),),
    "diff": (
        ("what the last batch changed", f"statemaint diff {CHECKPOINT}"),
        ("rows of one key", f"statemaint diff {CHECKPOINT} --from 20 --to 25 --key k3"),
    ),
    "digest": (("compare two copies of a checkpoint", f"statemaint digest {CHECKPOINT} --json"),),
    "doctor": (
        ("can it restart?", f"statemaint doctor {CHECKPOINT}"),
        ("every checkpoint of a folder, the worst first", "statemaint doctor /data/checkpoints"),
    ),
    "exporter": (
        ("for Prometheus to scrape", "statemaint exporter --queries statemaint_queries.yaml"),
    ),
    "maintain": (
        ("what would it do?", f"statemaint maintain {CHECKPOINT} --dry-run"),
        ("with a way back for a week", f"statemaint maintain {CHECKPOINT} --trash-for 7d"),
    ),
    "plan": (
        ("what would a run do, and why?", f"statemaint plan {CHECKPOINT}"),
        (
            "review it before it is carried out",
            f"statemaint plan {CHECKPOINT} --json --output plan.json",
        ),
    ),
    "queries": (
        ("check the file of the DAGs", "statemaint queries statemaint_queries.yaml validate"),
    ),
    "repair": (
        ("what can be repaired?", f"statemaint repair {CHECKPOINT}"),
        ("repair it", f"statemaint repair {CHECKPOINT} --apply"),
    ),
    "rollback": (
        ("which files would it move?", f"statemaint rollback {CHECKPOINT} --to-batch 20"),
        ("roll back", f"statemaint rollback {CHECKPOINT} --to-batch 20 --apply"),
    ),
    "runs": (
        ("what was done here?", f"statemaint runs {CHECKPOINT}"),
        ("what did that run do, file by file?", f"statemaint runs {CHECKPOINT} RUN --all"),
    ),
    "scan": (
        ("what is in it?", f"statemaint scan {CHECKPOINT}"),
        ("by its name in the queries file", "statemaint scan hourly_revenue"),
        ("every checkpoint of a folder or bucket", "statemaint scan /data/checkpoints"),
    ),
    "show": (
        ("ten rows of the newest state", f"statemaint show {CHECKPOINT} --limit 10"),
        ("one key as it was", f"statemaint show {CHECKPOINT} --version 20 --key k3"),
        ("for a spreadsheet", f"statemaint show {CHECKPOINT} --csv --output rows.csv"),
    ),
    "stats": (("what does the state consist of?", f"statemaint stats {CHECKPOINT}"),),
    "undo": (("bring back what a run deleted", f"statemaint undo {CHECKPOINT} RUN"),),
    "verify": (
        ("every needed file, its beginning and end", f"statemaint verify {CHECKPOINT}"),
        ("every byte and row", f"statemaint verify {CHECKPOINT} --deep"),
        (
            "a tenth of it, a different one each night",
            f"statemaint verify {CHECKPOINT} --sample 3/10",
        ),
    ),
}


def epilog(verb: str) -> str:
    """Returns the examples of a verb, for the end of its `--help`."""
    lines = [line for why, command in EXAMPLES[verb] for line in (f"  # {why}", f"  {command}")]
    return "\n".join(("\b", "Examples:", *lines))
