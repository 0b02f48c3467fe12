# daemon/core/keep.c: the record does not say which slots a job keeps
s/^    job->r.kept = ended->r.number;/    (void)0;/
