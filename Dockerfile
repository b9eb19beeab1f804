# The command and the app, small and without root:
#
#   docker build -t biasgp .
#   docker run --rm -v "$PWD":/data biasgp fit readings.csv
#   docker run --rm -it --network host -v "$PWD":/data biasgp app readings.csv --no-browser
#
# The app listens on 127.0.0.1 alone, which is why it needs the network of the host.
FROM python:3.13-slim AS build
COPY pyproject.toml README.md LICENSE constraints.txt /source/
COPY src /source/src
RUN python -m venv /opt/biasgp \
    && /opt/biasgp/bin/pip install --no-cache-dir --no-compile -c /source/constraints.txt "/source[app,excel,large,netcdf]"

FROM python:3.13-slim
RUN useradd --create-home --uid 1000 reader
COPY --from=build /opt/biasgp /opt/biasgp
ENV PATH="/opt/biasgp/bin:$PATH" PYTHONUNBUFFERED=1
USER reader
WORKDIR /data
ENTRYPOINT ["biasgp"]
CMD ["--help"]
