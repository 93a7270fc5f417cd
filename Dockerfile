# An image for workers and gateways: perdure, and your agents and tools in /app. Builds wherever pip finds its packages.
FROM python:3.12-slim AS build
# All extras but `local`, the embedded server. Fewer make a smaller image: docker build --build-arg EXTRAS=mcp,s3 .
ARG EXTRAS=a2a,ag-ui,azure,encryption,gcs,mcp,openapi,otlp,prices,push,s3,serve,webhooks
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY perdure ./perdure
RUN python -m venv /opt/perdure \
    && PIP_CONSTRAINT=constraints.txt /opt/perdure/bin/pip install --no-cache-dir --disable-pip-version-check ".[$EXTRAS]"

FROM python:3.12-slim
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin perdure \
    && install --directory --owner perdure --mode 700 /var/lib/perdure
COPY --from=build /opt/perdure /opt/perdure
COPY examples /app/examples
ENV PATH=/opt/perdure/bin:$PATH PYTHONUNBUFFERED=1
WORKDIR /app
USER perdure
# `docker stop` sends SIGTERM: the worker takes no new work and waits for running tools (--grace).
STOPSIGNAL SIGTERM
# Metrics, where --metrics-address says so; `perdure serve`, with that as the entry point.
EXPOSE 9464 8400
ENTRYPOINT ["perdure", "worker"]
CMD ["--tools", "examples/code_reader/tools.py"]
