FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir --require-hashes --requirement build.txt && \
  pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . && \
  pip wheel --no-cache-dir --no-deps --only-binary :all: --require-hashes --wheel-dir /wheels --requirement constraints.txt

FROM python:3.13-slim
RUN useradd --create-home --uid 1000 confirm && mkdir /data && chown confirm /data
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels pip install --no-cache-dir --no-index --find-links /wheels 'adk-confirm[adk,mcp,otel,postgres]'
USER confirm
# Inside a container it has to be reachable from outside, whatever the file says. Publish the port as you need it.
ENV ADK_CONFIRM_LISTEN=0.0.0.0:3000
# The configuration is mounted at /data/adk-confirm.toml, your agent's package beside it.
WORKDIR /data
EXPOSE 3000
# Whether the store answers, Slack is connected, and the worker runs.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:3000/readyz', timeout=4)"]
ENTRYPOINT ["adk-confirm"]
CMD ["serve", "--config", "/data/adk-confirm.toml"]
