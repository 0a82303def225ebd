# The course in a container, for a user who is not root.
#
#     docker build -t one-model-many-gpus .                                  for CPUs
#     docker build -t one-model-many-gpus:cuda --build-arg TORCH=cuda .      for NVIDIA GPUs
#     docker run --rm -p 127.0.0.1:8888:8888 --shm-size=2g -v course-work:/home/learner one-model-many-gpus
#
# For GPUs the host brings the driver and NVIDIA's container toolkit; add --gpus all to `docker run`.
# For a JupyterHub: --build-arg JUPYTERHUB=5.4.0, the hub's own version.
ARG PYTHON_IMAGE=docker.io/library/python:3.12-slim-bookworm
FROM ${PYTHON_IMAGE}

ARG TORCH=cpu
ARG TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu
ARG JUPYTERHUB=
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

RUN useradd --create-home --uid 1000 --shell /bin/bash learner

# The packages first: they change less often than the lessons. PyPI's torch for Linux is the one for CUDA.
COPY requirements.txt /opt/course/
RUN case "$TORCH" in \
        cpu) index="--extra-index-url $TORCH_CPU_INDEX" ;; \
        cuda) index= ;; \
        *) echo "TORCH is cpu or cuda, not $TORCH" >&2; exit 2 ;; \
    esac \
    && pip install $index -r /opt/course/requirements.txt ${JUPYTERHUB:+"jupyterhub==$JUPYTERHUB"}

# The course belongs to root, and nobody who learns can change it: `course lab` gives each learner a folder of their own.
COPY . /opt/course
RUN pip install --no-deps --editable /opt/course \
    && python -m compileall -q /opt/course/course_lib \
    && chmod -R go+rX,go-w /opt/course

USER 1000
WORKDIR /home/learner
EXPOSE 8888
# 0.0.0.0 is this container's own network: what of it is reachable, `docker run -p` decides. The token guards it.
CMD ["course", "lab", "--no-browser", "--ip=0.0.0.0", "--port=8888"]
