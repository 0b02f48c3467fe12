# daemon/core/jobs.c: a cancel is obeyed but not written down
s/job->r.cancel_requested = true;/(void)0;/
