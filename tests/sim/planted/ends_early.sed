# daemon/core/attempts.c: an attempt counts as ended while one node still has ranks of it
s/(\*event == ATTEMPT_ALL_GONE \&\& f->over == f->n)/(*event == ATTEMPT_ALL_GONE \&\& f->over + 1 >= f->n)/
