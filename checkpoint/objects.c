/* objects: see objects.h: all but requests themselves (objects_call.c) and uploads in parts (objects_parts.c). */
#include "checkpoint/objects.h"

#include <stdlib.h>
#include <string.h>

#include "checkpoint/objects_address.h"
#include "checkpoint/objects_call.h"
#include "checkpoint/objects_private.h"
#include "common/mem.h"

#define PAGES_MAX 10000 /* of a list: a server that always says "more" must not hold us for ever */

enum objects_result objects_delete(struct objects *o, const char *key, struct err *err)
{
    struct objects_call c = {.what = "delete", .method = "DELETE", .key = key};
    enum objects_result rc = objects_call(o, &c, err);
    objects_answer_clear(&c.answer);
    return rc == OBJECTS_ABSENT ? OBJECTS_OK : rc;
}

enum objects_result objects_get(struct objects *o, const char *key, uint64_t from, uint64_t bytes, int fd,
                                uint64_t at, struct err *err)
{
    struct objects_call c = {.what = "download",
                             .method = "GET",
                             .key = key,
                             .range = true,
                             .from = from,
                             .bytes = bytes,
                             .fd = fd,
                             .at = at};
    if (bytes == 0)
        return OBJECTS_OK;
    enum objects_result rc = objects_call(o, &c, err);
    objects_answer_clear(&c.answer);
    return rc;
}

/* ---- sending ---------------------------------------------------------------------------------------------------------- */

static enum objects_result put_whole(struct objects *o, const char *key, const struct objects_source *source,
                                     const char *hash, struct err *err)
{
    struct objects_sums sums;
    char found[DIGEST_SIZE];
    struct digest *whole = digest_new();
    int read = objects_sum(source, &sums, whole, err);
    digest_end(whole, found);
    if (read != 0)
        return err_prefix(err, "cannot upload %s", key);
    if (strcmp(found, hash) != 0)
        return err_set(err, "%s is not uploaded: it is damaged, its hash is not the one of its manifest",
                       key);
    struct objects_call c = {
        .what = "upload", .method = "PUT", .key = key, .body = source, .sums = &sums, .hash = hash};
    enum objects_result rc = objects_call(o, &c, err);
    objects_answer_clear(&c.answer);
    if (rc == OBJECTS_OK) {
        objects_watch_of(o)->sent += source->bytes;
        objects_watch_of(o)->parts++;
    }
    return rc == OBJECTS_ABSENT ? OBJECTS_ERROR : rc;
}

enum objects_result objects_put(struct objects *o, const char *key, const struct objects_source *source,
                                uint64_t part, const char *hash, struct err *err)
{
    return source->bytes <= part ? put_whole(o, key, source, hash, err)
                                 : objects_put_parts(o, key, source, part, hash, err);
}

/* ---- listing ---------------------------------------------------------------------------------------------------------- */

static enum objects_result list_page(struct objects *o, const char *prefix, bool folders, const char *token,
                                     struct objects_answer *out, struct err *err)
{
    struct objects_param params[4] = {{"list-type", "2"}, {"prefix", prefix}};
    size_t n = 2;
    if (folders)
        params[n++] = (struct objects_param){"delimiter", "/"};
    if (token)
        params[n++] = (struct objects_param){"continuation-token", token};
    char *query = objects_query(params, n);
    struct objects_call c = {
        .what = "list the objects", .method = "GET", .key = "", .query = query, .expect = "ListBucketResult"};
    enum objects_result rc = objects_call(o, &c, err);
    free(query);
    *out = c.answer;
    return rc == OBJECTS_ABSENT ? OBJECTS_ERROR : rc;
}

/* The answer to a HEAD has no body, so a refusal has no reason: a list of the same key is refused for the same one, in words. */
static enum objects_result explain_refusal(struct objects *o, const char *key, struct err *err)
{
    struct objects_answer page;
    struct err why;
    enum objects_result rc = list_page(o, key, false, NULL, &page, &why);
    objects_answer_clear(&page);
    if (rc == OBJECTS_ERROR)
        err_set(err, "%s", why.text);
    return rc == OBJECTS_CANCELLED ? rc : OBJECTS_ERROR;
}

enum objects_result objects_head(struct objects *o, const char *key, struct objects_info *out,
                                 struct err *err)
{
    struct objects_call c = {.what = "look at", .method = "HEAD", .key = key};
    enum objects_result rc = objects_call(o, &c, err);
    *out = c.info;
    objects_answer_clear(&c.answer);
    bool refused = rc == OBJECTS_ERROR && c.status >= 300 && c.status < 500;
    return refused ? explain_refusal(o, key, err) : rc;
}

static bool tell_page(const struct objects_answer *page,
                      int (*each)(void *ctx, const char *key, uint64_t bytes), void *ctx)
{
    for (size_t i = 0; i < page->n_items; i++)
        if (page->items[i].key && each(ctx, page->items[i].key, page->items[i].bytes) != 0)
            return false;
    return page->truncated && page->next_token;
}

enum objects_result objects_list(struct objects *o, const char *prefix, bool folders,
                                 int (*each)(void *ctx, const char *key, uint64_t bytes), void *ctx,
                                 struct err *err)
{
    char *token = NULL;
    enum objects_result rc = OBJECTS_OK;
    bool more = true;
    for (int pages = 0; rc == OBJECTS_OK && more && pages < PAGES_MAX; pages++) {
        struct objects_answer page;
        rc = list_page(o, prefix, folders, token, &page, err);
        more = rc == OBJECTS_OK && tell_page(&page, each, ctx);
        free(token);
        token = str_dup(page.next_token);
        objects_answer_clear(&page);
    }
    free(token);
    return rc == OBJECTS_OK && more ? err_set(err, "the list of %s has no end", prefix) : rc;
}

/* ---- uploads under way ------------------------------------------------------------------------------------------------ */

enum objects_result objects_sweep(struct objects *o, const char *prefix,
                                  bool (*gone)(void *ctx, const char *key), void *ctx, struct err *err)
{
    struct objects_answer uploads;
    enum objects_result rc = objects_uploads(o, prefix, &uploads, err);
    for (size_t i = 0; rc == OBJECTS_OK && i < uploads.n_items; i++)
        if (gone(ctx, uploads.items[i].key))
            rc = objects_abort(o, uploads.items[i].key, uploads.items[i].id, err);
    objects_answer_clear(&uploads);
    return rc;
}
