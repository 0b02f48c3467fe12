/* output: see output.h. Keys keep the order in which belayd sends them. */
#include "launcher/output.h"

#include <stdio.h>

void output_json(const json_t *value)
{
    json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
    putchar('\n');
}

void output_json_line(const json_t *value)
{
    json_dumpf(value, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
    putchar('\n');
    fflush(stdout);
}
