# daemon/core/attempts.c: ranks are told to go when one node is ready, not all
s/(\*event == ATTEMPT_ALL_READY \&\& f->ready == f->n)/(*event == ATTEMPT_ALL_READY \&\& f->ready > 0)/
