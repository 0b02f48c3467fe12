#!/bin/sh
# A rank of a plain program that does as its first argument says. $2: a folder for marks.
case "$1" in
  env) env | grep -E '^(RANK|WORLD_SIZE|LOCAL_|NODE_RANK|MASTER_|BELAY_|OMP_|CUDA_|PMIX_OUTER|JOBVAR|OMPI_OUTER)' | sort
       echo "cwd $(pwd)"; echo "user $(id -u) $(id -g)"; echo "stdin $(readlink /proc/self/fd/0)"
       echo "session $(ps -o sid= -p $$ | tr -d ' ') $$"
       [ -r "$BELAY_JOB_FILE" ] && echo "job file: $(cat "$BELAY_JOB_FILE")"
       : >"$2/env.$RANK"; echo err >&2; echo out; echo err2 >&2 ;;
  codes) case "$RANK" in 0) exit 0 ;; 1) exit 1 ;; 2) kill -SEGV $$ ;; 3) exit 93 ;; esac ;;
  uneven) [ "$RANK" -ge 2 ] || exit 0
       for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; done; exit 0 ;;
  wait) : >"$2/up.$RANK"; exec sleep 1000 ;;
  wait-all) : >"$2/up.$RANK"
       while [ "$(ls "$2" | grep -c '^up\.')" -lt "$WORLD_SIZE" ]; do sleep 0.01; done
       : >"$2/all"; exec sleep 1000 ;;
esac
