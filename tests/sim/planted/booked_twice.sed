# daemon/core/progress.c: time is booked after the end of an attempt
s/bool closed = a->r.state == ATTEMPT_STOPPING;/bool closed = false;/
