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
# The configuration is mounted at /data/adk-confirm.toml, your agent's package beside it.
WORKDIR /data
EXPOSE 3000
ENTRYPOINT ["adk-confirm"]
CMD ["serve", "--config", "/data/adk-confirm.toml"]
