# The command and the app, small and without root:
#
#   docker build -t biasgp .
#   docker run --rm --user "$(id -u)" -v "$PWD":/data biasgp fit readings.csv
#   docker run --rm --user "$(id -u)" -it --network host -v "$PWD":/data biasgp app readings.csv --no-browser
#
# As the user whose folder it is, who has no home in the image: what numba compiles is kept in /tmp. The app listens on
# 127.0.0.1 alone, which is why it needs the network of the host.
FROM python:3.13-slim AS build
COPY pyproject.toml README.md LICENSE constraints.txt /source/
COPY src /source/src
RUN python -m venv /opt/biasgp \
    && /opt/biasgp/bin/pip install --no-cache-dir --no-compile -c /source/constraints.txt "/source[app,excel,large,netcdf]"

FROM python:3.13-slim
RUN useradd --create-home --uid 1000 reader
COPY --from=build /opt/biasgp /opt/biasgp
ENV PATH="/opt/biasgp/bin:$PATH" PYTHONUNBUFFERED=1 HOME=/tmp NUMBA_CACHE_DIR=/tmp/numba
USER reader
WORKDIR /data
ENTRYPOINT ["biasgp"]
CMD ["--help"]
