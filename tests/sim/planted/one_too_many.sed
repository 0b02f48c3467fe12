# daemon/core/recovery.c: a job gets one restart more than it may have
s/if (f->charged > f->max)/if (f->charged > f->max + 1)/
