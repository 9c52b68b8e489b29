#!/usr/bin/env bash
# Start one command on every host of a gcloud TPU VM slice; `bash launch/tpu_pod.sh --help` tells how.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: launch/tpu_pod.sh [--print] --tpu=NAME --zone=ZONE [--project=ID] [--dir=FOLDER] ACTION [ARGUMENT ...]

Actions:
  setup               copy the last commit of this clone to FOLDER on every host and install it there
  run ARGUMENT ...    on every host: python launch/tpu_run.py ARGUMENT ...; the hosts find each other by themselves
  stop                send SIGTERM to the run on every host: it saves what is finished and leaves

Options:
  --tpu=NAME          name of the TPU VM (any number of hosts)
  --zone=ZONE         its zone
  --project=ID        its project; default: gcloud's own setting
  --dir=FOLDER        where the code lies on the hosts, relative to the home folder; default spicejax
  --python=COMMAND    Python 3.11 or newer on the hosts, for setup; default python3
  --print             show the commands, run none

The work folder (and nano.cache) must be a folder that all hosts share: a mounted NFS or Filestore share, or a bucket
mounted with gcsfuse (hierarchical namespace, or --rename-dir-limit=100000: checkpoints rename folders). The model's
folder and the corpus must have the same path on all hosts. A run lasts as long as the connections of this command:
start it inside tmux. Example:

  launch/tpu_pod.sh --tpu=pod --zone=us-east5-a setup
  launch/tpu_pod.sh --tpu=pod --zone=us-east5-a run --config=spice_qwen4b --workdir=/shared/runs/4b \
      model.path=/shared/models/qwen3-4b-base --corpus=/shared/corpora/documents
TEXT
}

fail() {
  echo "error: $1" >&2
  exit 2
}

tpu='' zone='' project='' folder=spicejax python=python3 show=''
while (($#)); do
  case $1 in
    --tpu=*) tpu=${1#*=} ;;
    --zone=*) zone=${1#*=} ;;
    --project=*) project=${1#*=} ;;
    --dir=*) folder=${1#*=} ;;
    --python=*) python=${1#*=} ;;
    --print) show=yes ;;
    --help | -h) usage && exit 0 ;;
    -*) fail "unknown option $1; see --help" ;;
    *) break ;;
  esac
  shift
done
action=${1:-}
(($#)) && shift
[[ -n $action ]] || { usage >&2 && exit 2; }
[[ -n $tpu ]] || fail "--tpu=NAME is missing"
[[ -n $zone ]] || fail "--zone=ZONE is missing"
[[ $folder =~ ^[A-Za-z0-9._/-]+$ ]] || fail "--dir=$folder: use letters, digits and . _ - /"
[[ $python =~ ^[A-Za-z0-9._/-]+$ ]] || fail "--python=$python: use letters, digits and . _ - /"

where=("--zone=$zone")
[[ -z $project ]] || where+=("--project=$project")

do_it() { # run a command, or show it in a form that a shell reads back
  if [[ -n $show ]]; then
    printf '%q ' "$@"
    echo
  else
    "$@"
  fi
}

everywhere() { # one command line for the shell of every host
  do_it gcloud compute tpus tpu-vm ssh "$tpu" "${where[@]}" --worker=all --command="$1"
}

case $action in
  setup)
    (($# == 0)) || fail "setup takes no arguments, got: $*"
    root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
    archive=${TMPDIR:-/tmp}/spicejax-code.tar.gz
    do_it git -C "$root" archive --format=tar.gz --output="$archive" HEAD
    do_it gcloud compute tpus tpu-vm scp "$archive" "$tpu:spicejax-code.tar.gz" "${where[@]}" --worker=all
    everywhere "mkdir -p $folder && tar -xzf spicejax-code.tar.gz -C $folder && cd $folder && $python -m venv .venv && .venv/bin/pip install -q -e '.[tpu]'"
    ;;
  run)
    (($#)) || fail "run needs the arguments of launch/tpu_run.py, at least --config=NAME"
    everywhere "cd $folder && echo \$\$ > run.pid && exec .venv/bin/python launch/tpu_run.py$(printf ' %q' "$@")"
    ;;
  stop)
    (($# == 0)) || fail "stop takes no arguments, got: $*"
    everywhere "kill -TERM \$(cat $folder/run.pid)"
    ;;
  *) fail "unknown action $action: setup, run or stop" ;;
esac
