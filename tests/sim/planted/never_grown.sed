# daemon/core/elastic.c: a job that could grow saves a checkpoint and is left as it is
s/^    if (answered(a) && a->r.save.step >= 0)$/    if (answered(a) \&\& a->r.save.step > INT64_MAX - 1)/
