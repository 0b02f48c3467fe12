/* jsonline: see jsonline.h. Lines are compact JSON, so a newline inside a string is always escaped. */
#include "common/jsonline.h"

#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>

static int append(const char *data, size_t len, void *out)
{
    return evbuffer_add(out, data, len);
}

void jsonline_send(struct bufferevent *bev, const json_t *msg)
{
    struct evbuffer *out = evbuffer_new();
    if (!out || json_dump_callback(msg, append, out, JSON_COMPACT) < 0 || evbuffer_add(out, "\n", 1) < 0 ||
        bufferevent_write_buffer(bev, out) < 0)
        abort(); /* out of memory */
    evbuffer_free(out);
}

static int receive_line(char *line, size_t len, int (*fn)(void *, const json_t *, struct err *), void *ctx,
                        struct err *err)
{
    json_error_t why;
    json_t *msg = json_loadb(line, len, JSON_REJECT_DUPLICATES, &why);
    if (!msg)
        return err_set(err, "a line is not JSON: %s at column %d", why.text, why.column);
    int rc = json_is_object(msg) ? fn(ctx, msg, err) : err_set(err, "a line is not a JSON object");
    json_decref(msg);
    return rc;
}

int jsonline_receive(struct bufferevent *bev, int (*fn)(void *ctx, const json_t *msg, struct err *err),
                     void *ctx, struct err *err)
{
    struct evbuffer *in = bufferevent_get_input(bev);
    for (;;) {
        struct evbuffer_ptr end = evbuffer_search_eol(in, NULL, NULL, EVBUFFER_EOL_LF);
        size_t waiting = end.pos >= 0 ? (size_t)end.pos : evbuffer_get_length(in);
        if (waiting > LINK_LINE_MAX)
            return err_set(err, "a line is longer than %u bytes", LINK_LINE_MAX);
        if (end.pos < 0)
            return 0;
        size_t len;
        char *line = evbuffer_readln(in, &len, EVBUFFER_EOL_LF);
        int rc = len > 0 ? receive_line(line, len, fn, ctx, err) : 0;
        free(line);
        if (rc < 0)
            return -1;
    }
}
