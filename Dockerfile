# The service with its dependencies, pinned as `make setup` pins them. Packs are mounted at /packs.
FROM python:3.13-slim
WORKDIR /opt/tercet
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
COPY examples/refunds examples/refunds
RUN pip install --no-cache-dir -c constraints.txt '.[service,postgres,cluster,telemetry,signing,erasure,models,mcp,http,documents,locales]' \
 && useradd --create-home --uid 10001 tercet \
 && mkdir /packs /data && chown tercet /data
USER tercet
WORKDIR /data
ENV TERCET_JOURNAL=sqlite:////data/tercet.db
EXPOSE 8700
HEALTHCHECK --interval=10s --timeout=3s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8700/healthz', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["tercet"]
CMD ["serve", "/packs", "--host", "0.0.0.0"]
