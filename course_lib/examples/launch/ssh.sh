#!/bin/bash
# Plain ssh: on every host one torchrun, which starts the ranks.
#
#     ./ssh.sh "node1 node2" 8 -m train_ddp --data /data/flowers --out /shared/runs/1
#
# First the hosts (the first one is where all meet, by the name under which the others reach it), then the ranks on
# each, then what torchrun starts: "-m module" or a file, and its options. ssh must not ask for a password (keys in an
# agent), and each host needs bash, and this folder under the same path. Ctrl-C ends all of it. May be set before:
#
#     FOLDER     where to run (this folder)             TORCHRUN   such as /shared/venv/bin/torchrun (torchrun)
#     PORT       on the first host (29400)              SETTINGS   variables for the hosts (NCCL_DEBUG=WARN)
#
# At the end of a job that went well an agent may still say "Error waiting on exit barrier", since the first host's was
# quicker and has closed the store. What counts is the exit code: 0.

set -euo pipefail

refuse() {
    echo "$1" "usage: ./ssh.sh \"HOST ...\" RANKS_PER_HOST PROGRAM [OPTION ...]" >&2
    exit 2
}
(($# >= 3)) || refuse "Three things are needed, and $# were given."
read -r -a hosts <<<"$1" || true
ranks=$2
((${#hosts[@]} > 0)) || refuse "The first word names no host."
[[ $1 != *,* ]] || refuse "Between hosts stands a blank, no comma: \"${1//,/ }\"."
[[ $ranks =~ ^([1-9][0-9]*|gpu|cpu|auto)$ ]] || refuse "Ranks on each host were '$ranks'; they are a number, such as 8."
shift 2
FOLDER=${FOLDER:-$PWD}
SETTINGS=${SETTINGS:-NCCL_DEBUG=WARN}
job="ssh-${HOSTNAME:-here}-$$-$(date +%s)"

# What a host runs. At the end of ssh (HUP) torchrun is told to end (TERM, which it hears under nohup, too), and ends its
# ranks; the end may come before it has begun. When torchrun has ended, by any end, ranks that it has left are killed
# (on Linux): they would wait for the others for ever. LAUNCHED_AS marks them.
# shellcheck disable=SC2016
far='agent=; over=; trap "over=1; kill \$agent 2>/dev/null" HUP TERM; '
far+='env "LAUNCHED_AS=$0" TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 "$@" & agent=$!; [[ -z $over ]] || kill $agent; '
far+='wait $agent; code=$?; while kill -0 $agent 2>/dev/null; do wait $agent; code=$?; done; '
far+='kill -KILL $(grep -slzxF "LAUNCHED_AS=$0" /proc/[0-9]*/environ | cut -d/ -f3) 2>/dev/null; exit $code'

agents=()
end_all() {
    for agent in ${agents[@]+"${agents[@]}"}; do
        kill "$agent" 2>/dev/null || true
    done
}
trap end_all EXIT
trap 'exit 130' INT TERM

for node in "${!hosts[@]}"; do
    torchrun=("${TORCHRUN:-torchrun}" --nnodes "${#hosts[@]}" --nproc-per-node "$ranks" --max-restarts 3
        --rdzv-backend c10d --rdzv-endpoint "${hosts[0]}:${PORT:-29400}" --rdzv-id "$job"
        --rdzv-conf "is_host=$((node == 0))" --local-addr "${hosts[node]}" "$@")
    # The far shell reads a text: %q keeps blanks and quotes of a word together.
    command="cd $(printf %q "$FOLDER") && exec bash -c $(printf '%q %q' "$far" "$job.$node") $SETTINGS$(printf ' %q' "${torchrun[@]}")"
    # -tt: with a terminal, so that the far side hears when this ssh ends, and nobody is left there.
    ssh -tt -o BatchMode=yes -o ServerAliveInterval=15 "${hosts[node]}" "$command" </dev/null &
    agents+=("$!")
done

# Until all have ended, or one has failed. (No "wait -n": the bash of macOS is too old for it.)
while ((${#agents[@]} > 0)); do
    for node in "${!agents[@]}"; do
        if ! kill -0 "${agents[node]}" 2>/dev/null; then
            code=0
            wait "${agents[node]}" || code=$?
            unset "agents[node]"
            ((code == 0)) || break 2
        fi
    done
    sleep 1
done
if ((code > 0)); then
    echo "${hosts[node]} has failed, exit code $code (255: ssh did not get there; 127: no torchrun there, see TORCHRUN)." \
        "The others are ended." >&2
    exit 1
fi
