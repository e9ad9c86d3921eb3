# docker build -t gtrxl . && docker run --rm gtrxl                  the README's first command
# docker run --rm -v "$PWD/runs:/work/runs" gtrxl train t-maze      another one, its run kept here
FROM python:3.11-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++
WORKDIR /source
COPY . .
RUN GTRXL_WHEEL=1 pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

# Without a compiler: the wheel has the native libraries inside.
FROM python:3.11-slim
RUN --mount=from=build,source=/wheels,target=/wheels pip install --no-cache-dir /wheels/*.whl
WORKDIR /work
ENTRYPOINT ["gtrxl"]
CMD ["train"]
