# The service with the packs of a folder: docker build -t tercet .
FROM python:3.13-slim

RUN useradd --create-home --uid 10001 tercet && mkdir /packs /data && chown tercet /data
COPY pyproject.toml constraints.txt README.md LICENSE /src/
COPY src /src/src
COPY examples/refunds /src/examples/refunds
RUN pip install --no-cache-dir --constraint /src/constraints.txt '/src[service,postgres,models,http,locales,signing,telemetry]' \
    && rm -rf /src

USER tercet
WORKDIR /data
# One file on the volume unless a server is named: TERCET_JOURNAL=postgresql://…
ENV TERCET_JOURNAL=sqlite:////data/tercet.db
EXPOSE 8700
# SIGTERM lets calls in flight end, and leaves every session to the next worker.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8700/healthz', timeout=4)"]
ENTRYPOINT ["tercet"]
CMD ["serve", "/packs/refunds", "--host", "0.0.0.0"]
