# daemon/core/schedule.c: slots that a job keeps for its restart look free to others
s/^        placement_view_take(r->view, kept, n_kept.*$/        (void)0;/
