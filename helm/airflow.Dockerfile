# Airflow's own image with statemaint in it, for the official chart. Build it where the wheel is:
#
#   .venv/bin/python -m hatchling build -t wheel
#   docker build --file helm/airflow.Dockerfile --tag registry.example.com/airflow:3.3.2-statemaint .
#
# Airflow's version is given to pip again, which would otherwise be free to change it.
ARG AIRFLOW=apache/airflow:3.3.2
# hadolint ignore=DL3006 -- the version is in the argument
FROM ${AIRFLOW}
COPY dist/statemaint-*-py3-none-any.whl /tmp/
# What is compiled here is read by every pod: for any processor of the platform, not for the builder's own.
ENV NUMBA_CACHE_DIR=/home/airflow/.cache/statemaint-kernels \
    NUMBA_CPU_NAME=generic
# An extra of a file has no version.
# hadolint ignore=DL3013
RUN wheel=$(echo /tmp/statemaint-*-py3-none-any.whl) \
 && pip install --no-cache-dir "apache-airflow==${AIRFLOW_VERSION}" "${wheel}[airflow]" \
 && python -m statemaint.fold \
 && chmod -R a+rX "${NUMBA_CACHE_DIR}"
