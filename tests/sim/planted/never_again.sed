# daemon/core/nodes.c: slots that come free wake nobody
/^void node_event/,/^}/s/capacity_grew(core);/(void)core;/
