# daemon/core/nodes.c: a node where something old still runs gets new work
s/ \&\& node->n_stale == 0 \&\& !node->leaving/ \&\& !node->leaving/
