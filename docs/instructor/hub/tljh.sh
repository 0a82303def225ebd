#!/bin/bash
# The course on The Littlest JupyterHub: one machine, a page to log in to, a Unix user for each learner.
#
#     sudo bash tljh.sh https://example.org/one-model-many-gpus.git [BRANCH]
#
# The hub itself is there already; https://tljh.jupyter.org says how. Type this again for a newer edition.
set -euo pipefail

repository=${1:?is missing. Say where the course is: sudo bash tljh.sh REPOSITORY [BRANCH]}
branch=${2:-main}
course=${COURSE_DIR:-/opt/one-model-many-gpus}
hub=${TLJH_USER_ENVIRONMENT:-/opt/tljh/user}
hub_python=$hub/bin/python

if [[ ! -x $hub_python ]]; then
    echo "There is no $hub_python: install The Littlest JupyterHub first (https://tljh.jupyter.org)." >&2
    exit 2
fi

# A folder of root's, which everybody reads and nobody changes.
umask 022
if [[ -d $course/.git ]]; then
    git -C "$course" pull --ff-only
else
    git clone --branch "$branch" "$repository" "$course"
fi
"$hub_python" -m pip install -r "$course/requirements.txt" nbgitpuller
"$hub_python" -m pip install --no-deps --editable "$course"
"$hub_python" -m compileall -q "$course/course_lib" # learners cannot write there

# Pages and kernels as `course lab` has them: the look of forms, the texts of pictures, kernels on private sockets; no
# pop-up about news, and no language server beside each page (130 MiB a learner, for marks that no page shows).
"$hub_python" -m course_lib.lab.hub

# What one learner may take. `course class check --learners 30` says what this machine has for thirty of them.
tljh-config set limits.memory "${LEARNER_MEMORY:-3G}"
tljh-config set limits.cpu "${LEARNER_CORES:-2}"
tljh-config set user_environment.default_app jupyterlab
# A server that nobody looks at is ended after an hour, with its kernels and their ranks.
tljh-config set services.cull.enabled true
tljh-config set services.cull.timeout 3600
tljh-config reload

# nbgitpuller brings newer lessons at each click, and keeps what a learner has changed.
printf '\nThe link for the class (put the name of your hub in):\n'
"$hub_python" - "$repository" "$branch" <<'PYTHON'
import re
import sys
from urllib.parse import urlencode

repository, branch = sys.argv[1:]
# nbgitpuller would call the folder by the last part of the address, with its ".git"; targetpath names it.
last = re.split(r"[/:]", repository.partition("?")[0].rstrip("/"))[-1].removesuffix(".git")
folder = re.sub(r"[^A-Za-z0-9_-]+", "-", last).strip("-") or "one-model-many-gpus"
query = {"repo": repository, "branch": branch, "targetpath": folder}
query["urlpath"] = f"lab/tree/{folder}/notebooks/00_start_here.ipynb"
print(f"    https://YOUR-HUB/hub/user-redirect/git-pull?{urlencode(query)}")
PYTHON
