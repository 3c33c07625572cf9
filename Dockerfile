# The image of the program: the chart's CronJobs and exporter run it. helm/airflow.Dockerfile is for Airflow.
#
#   docker build --tag registry.example.com/statemaint:0.2.0 .
#
# For a build that can be repeated, name the base by its digest: --build-arg PYTHON=python:3.11-slim@sha256:...
# Every package is pinned by its hash. The image has neither pip nor a compiler, runs as a user without a name,
# and needs no writable file system but /tmp. tests/image runs these steps in unpacked roots.
ARG PYTHON=python:3.11-slim-bookworm

FROM ${PYTHON} AS build
WORKDIR /src
COPY requirements-build.lock requirements-image.lock ./
RUN python -m venv /build \
 && /build/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements-build.lock \
 && python -m venv --without-pip /opt/statemaint \
 && /build/bin/pip --python /opt/statemaint/bin/python install --no-cache-dir --no-deps \
      --only-binary :all: --require-hashes -r requirements-image.lock
COPY pyproject.toml README.md LICENSE ./
COPY statemaint statemaint
RUN /build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /dist . \
 && /build/bin/pip --python /opt/statemaint/bin/python install --no-cache-dir --no-deps --no-index /dist/*.whl
# What is compiled here is read by every pod: for any processor of the platform, not for the builder's own. It is found
# by the path of its source, which is the installed one and not /src.
WORKDIR /opt/statemaint
ENV NUMBA_CACHE_DIR=/opt/statemaint/kernels \
    NUMBA_CPU_NAME=generic
RUN /opt/statemaint/bin/python -m statemaint.fold \
 && chmod -R a+rX /opt/statemaint

FROM ${PYTHON}
LABEL org.opencontainers.image.title="statemaint" \
      org.opencontainers.image.description="Maintains the state of Spark Structured Streaming queries" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/statemaint/bin:$PATH \
    HOME=/tmp \
    NUMBA_CACHE_DIR=/opt/statemaint/kernels \
    NUMBA_CPU_NAME=generic \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
RUN python -m pip uninstall --yes --quiet --root-user-action ignore pip setuptools wheel \
 && python -c "import ensurepip, shutil; shutil.rmtree(ensurepip.__path__[0])"
COPY --from=build /opt/statemaint /opt/statemaint
WORKDIR /tmp
USER 65532:65532
# As the first process of a container it would not hear the usual SIGTERM; this one ends a run and its lease.
STOPSIGNAL SIGINT
ENTRYPOINT ["statemaint"]
CMD ["--help"]
