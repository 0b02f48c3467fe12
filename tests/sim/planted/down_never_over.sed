# daemon/core/seats.c: the part of an attempt on a dead node is waited for
s/ || a->seats\[seat\].node->r.state == NODE_DOWN;/;/
