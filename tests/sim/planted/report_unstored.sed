# daemon/core/seats.c: a report changes the attempt but is not stored
/^void seat_take_report/,/^}/s/mark_attempt(core, a);/(void)core;/
