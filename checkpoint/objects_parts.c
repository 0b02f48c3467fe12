/* objects_parts: an object in parts. What is there of an upload that broke off is told by the ETags of its parts, which are the MD5 of their
 * content with most servers; with others nothing matches, and every part is sent again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/objects_address.h"
#include "checkpoint/objects_call.h"
#include "checkpoint/objects_private.h"
#include "common/mem.h"

#define PAGES_MAX 1000

/* An upload under way. */
struct upload {
    struct objects *o;
    const char *key, *hash;
    const struct objects_source *source;
    uint64_t part; /* bytes */
    int count;
    char *id;
    struct objects_answer there; /* parts that a broken upload left */
    char (*etags)[OBJECTS_ETAG_MAX + 1];
    bool resumed;
    bool once; /* no second try: it is being given up */
};

void objects_answer_join(struct objects_answer *to, struct objects_answer *from)
{
    to->items = mem_grow(to->items, to->n_items + from->n_items + 1, sizeof *to->items);
    if (from->n_items > 0)
        memcpy(to->items + to->n_items, from->items, from->n_items * sizeof *from->items);
    to->n_items += from->n_items;
    from->n_items = 0;
}

/* ---- what there is ---------------------------------------------------------------------------------------------------- */

static bool cannot_list(const struct objects_call *c)
{
    return c->status == 501 || c->status == 405 || objects_said(c, "NotImplemented");
}

/* An upload without key or id is of no use. */
static void drop_odd(struct objects_answer *a)
{
    size_t kept = 0;
    for (size_t i = 0; i < a->n_items; i++) {
        struct objects_item *item = &a->items[i];
        if (item->key && item->id) {
            a->items[kept++] = *item;
            continue;
        }
        free(item->key);
        free(item->id);
        free(item->etag);
    }
    a->n_items = kept;
}

static enum objects_result uploads_page(struct objects *o, const char *prefix, struct objects_answer *after,
                                        struct objects_answer *page, struct err *err)
{
    struct objects_param params[4] = {{"uploads", ""}, {"prefix", prefix}};
    size_t n = 2;
    if (after->next_key)
        params[n++] = (struct objects_param){"key-marker", after->next_key};
    if (after->next_id)
        params[n++] = (struct objects_param){"upload-id-marker", after->next_id};
    char *query = objects_query(params, n);
    struct objects_call c = {.what = "list the uploads",
                             .method = "GET",
                             .key = "",
                             .query = query,
                             .expect = "ListMultipartUploadsResult"};
    enum objects_result rc = objects_call(o, &c, err);
    free(query);
    *page = c.answer;
    if (rc != OBJECTS_OK && rc != OBJECTS_CANCELLED && cannot_list(&c)) {
        objects_answer_clear(page);
        return OBJECTS_OK;
    }
    return rc == OBJECTS_ABSENT ? OBJECTS_ERROR : rc;
}

enum objects_result objects_uploads(struct objects *o, const char *prefix, struct objects_answer *out,
                                    struct err *err)
{
    struct objects_answer page = {.root = NULL}, before;
    enum objects_result rc = OBJECTS_OK;
    bool more = true;
    *out = (struct objects_answer){.root = NULL};
    for (int pages = 0; rc == OBJECTS_OK && more && pages < PAGES_MAX; pages++) {
        before = page;
        rc = uploads_page(o, prefix, &before, &page, err);
        objects_answer_clear(&before);
        more = page.truncated && page.next_key;
        objects_answer_join(out, &page);
    }
    objects_answer_clear(&page);
    drop_odd(out);
    return rc;
}

static char *of_upload(const struct upload *u, const char *marker)
{
    struct objects_param params[] = {{"uploadId", u->id}, {"part-number-marker", marker}};
    return objects_query(params, marker ? 2 : 1);
}

static enum objects_result list_parts(struct upload *u, struct err *err)
{
    enum objects_result rc = OBJECTS_OK;
    char *marker = NULL;
    bool more = true;
    for (int pages = 0; rc == OBJECTS_OK && more && pages < PAGES_MAX; pages++) {
        char *query = of_upload(u, marker);
        struct objects_call c = {.what = "list the parts of",
                                 .method = "GET",
                                 .key = u->key,
                                 .query = query,
                                 .expect = "ListPartsResult"};
        rc = objects_call(u->o, &c, err);
        more = rc == OBJECTS_OK && c.answer.truncated && c.answer.next_part;
        free(marker);
        marker = str_dup(c.answer.next_part);
        objects_answer_join(&u->there, &c.answer);
        objects_answer_clear(&c.answer);
        free(query);
    }
    free(marker);
    return rc;
}

/* ---- beginning and giving up ------------------------------------------------------------------------------------------ */

static enum objects_result abort_upload(struct upload *u, struct err *err)
{
    char *query = of_upload(u, NULL);
    struct objects_call c = {
        .what = "give up the upload of", .method = "DELETE", .key = u->key, .query = query, .once = u->once};
    enum objects_result rc = objects_call(u->o, &c, err);
    objects_answer_clear(&c.answer);
    free(query);
    return rc == OBJECTS_ABSENT ? OBJECTS_OK : rc;
}

enum objects_result objects_abort(struct objects *o, const char *key, const char *id, struct err *err)
{
    char *own = str_dup(id);
    struct upload u = {.o = o, .key = key, .id = own};
    enum objects_result rc = abort_upload(&u, err);
    free(own);
    return rc;
}

static enum objects_result begin(struct upload *u, struct err *err)
{
    struct objects_param params[] = {{"uploads", ""}};
    char *query = objects_query(params, 1);
    struct objects_call c = {.what = "begin the upload of",
                             .method = "POST",
                             .key = u->key,
                             .query = query,
                             .hash = u->hash,
                             .expect = "InitiateMultipartUploadResult"};
    enum objects_result rc = objects_call(u->o, &c, err);
    free(query);
    if (rc == OBJECTS_OK && !c.answer.upload_id)
        rc = err_set(err, "cannot begin the upload of %s: the server's answer has no UploadId", u->key);
    u->id = rc == OBJECTS_OK ? str_dup(c.answer.upload_id) : NULL;
    objects_answer_clear(&c.answer);
    return rc == OBJECTS_ABSENT ? OBJECTS_ERROR : rc;
}

/* The newest upload of this very key, the last of the list, is to be gone on with (id); older ones are given up. */
static enum objects_result choose(struct upload *u, struct err *err)
{
    struct objects_answer uploads;
    enum objects_result rc = objects_uploads(u->o, u->key, &uploads, err);
    for (size_t i = uploads.n_items; rc == OBJECTS_OK && i-- > 0;) {
        if (strcmp(uploads.items[i].key, u->key) != 0)
            continue;
        if (u->id)
            rc = objects_abort(u->o, u->key, uploads.items[i].id, err);
        else
            u->id = str_dup(uploads.items[i].id);
    }
    objects_answer_clear(&uploads);
    return rc;
}

/* Finds an upload that broke off, and its parts. Without one the id is NULL. */
static enum objects_result find(struct upload *u, struct err *err)
{
    enum objects_result rc = choose(u, err);
    if (rc == OBJECTS_OK && u->id)
        rc = list_parts(u, err);
    if (rc != OBJECTS_ABSENT)
        return rc;
    free(u->id); /* it ended meanwhile */
    u->id = NULL;
    return OBJECTS_OK;
}

/* ---- parts ------------------------------------------------------------------------------------------------------------ */

static struct objects_source part_of(const struct upload *u, int number)
{
    uint64_t at = (uint64_t)(number - 1) * u->part, left = u->source->bytes - at;
    struct objects_source s = *u->source;
    if (s.data)
        s.data = (const char *)s.data + at;
    else
        s.from += at;
    s.bytes = left < u->part ? left : u->part;
    return s;
}

/* Is part `number` there already, with this content? Then its ETag is noted. */
static bool reuse(struct upload *u, int number, uint64_t bytes, const struct objects_sums *sums)
{
    for (size_t i = 0; i < u->there.n_items; i++) {
        const struct objects_item *item = &u->there.items[i];
        const char *etag = item->etag ? item->etag : "";
        size_t quote = *etag == '"';
        if (item->part != number || item->bytes != bytes || strlen(etag) > OBJECTS_ETAG_MAX ||
            strncmp(etag + quote, sums->md5, 32) != 0 || strlen(etag) != 32 + 2 * quote)
            continue;
        (void)snprintf(u->etags[number - 1], sizeof *u->etags, "%s", etag);
        return true;
    }
    return false;
}

static enum objects_result send_part(struct upload *u, int number, const struct objects_source *part,
                                     const struct objects_sums *sums, struct err *err)
{
    char what[64], text[16];
    (void)snprintf(what, sizeof what, "upload part %d of %d of", number, u->count); /* both fit */
    (void)snprintf(text, sizeof text, "%d", number);
    struct objects_param params[] = {{"partNumber", text}, {"uploadId", u->id}};
    char *query = objects_query(params, 2);
    struct objects_call c = {
        .what = what, .method = "PUT", .key = u->key, .query = query, .body = part, .sums = sums};
    enum objects_result rc = objects_call(u->o, &c, err);
    free(query);
    if (rc == OBJECTS_OK && !c.etag[0])
        rc = err_set(err, "cannot %s %s: the server's answer has no ETag", what, u->key);
    if (rc == OBJECTS_OK) {
        memcpy(u->etags[number - 1], c.etag, sizeof c.etag);
        objects_watch_of(u->o)->sent += part->bytes;
        objects_watch_of(u->o)->parts++;
    }
    objects_answer_clear(&c.answer);
    return rc == OBJECTS_ABSENT ? OBJECTS_ERROR : rc;
}

static enum objects_result put_part(struct upload *u, int number, struct digest *whole, struct err *err)
{
    struct objects_source part = part_of(u, number);
    struct objects_sums sums;
    if (objects_sum(&part, &sums, whole, err) != 0)
        return err_prefix(err, "cannot upload %s", u->key);
    if (!reuse(u, number, part.bytes, &sums))
        return send_part(u, number, &part, &sums, err);
    objects_watch_of(u->o)->reused++;
    return OBJECTS_OK;
}

static enum objects_result put_all(struct upload *u, struct err *err)
{
    char found[DIGEST_SIZE];
    struct digest *whole = digest_new();
    enum objects_result rc = OBJECTS_OK;
    for (int i = 1; rc == OBJECTS_OK && i <= u->count; i++)
        rc = put_part(u, i, whole, err);
    digest_end(whole, found);
    if (rc == OBJECTS_OK && strcmp(found, u->hash) != 0)
        rc = err_set(err, "%s is not uploaded: it is damaged, its hash is not the one of its manifest",
                     u->key);
    return rc;
}

/* ---- the end ---------------------------------------------------------------------------------------------------------- */

static char *list_of_parts(const struct upload *u)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        abort();
    (void)fputs("<CompleteMultipartUpload>", out);
    for (int i = 0; i < u->count; i++)
        (void)fprintf(out, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", i + 1, u->etags[i]);
    (void)fputs("</CompleteMultipartUpload>", out);
    if (fclose(out) != 0)
        abort(); /* only for want of memory */
    return text;
}

/* Is the object there, with this content? */
static bool is_there(struct upload *u)
{
    struct objects_info info;
    return objects_head(u->o, u->key, &info, NULL) == OBJECTS_OK && info.bytes == u->source->bytes &&
           strcmp(info.hash, u->hash) == 0;
}

static enum objects_result complete(struct upload *u, struct err *err)
{
    char *query = of_upload(u, NULL), *text = list_of_parts(u);
    struct objects_source body = {.data = text, .bytes = strlen(text)};
    struct objects_sums sums;
    (void)objects_sum(&body, &sums, NULL, NULL); /* memory can be read */
    struct objects_call c = {.what = "complete the upload of",
                             .method = "POST",
                             .key = u->key,
                             .query = query,
                             .body = &body,
                             .sums = &sums,
                             .patient = true,
                             .expect = "CompleteMultipartUploadResult"};
    enum objects_result rc = objects_call(u->o, &c, err);
    objects_answer_clear(&c.answer);
    free(text);
    free(query);
    if (rc ==
        OBJECTS_ABSENT) /* an answer that was lost may have been "done": then the upload is gone, and the object there */
        rc = is_there(u) ? OBJECTS_OK : OBJECTS_ERROR;
    return rc;
}

/* So large that OBJECTS_PARTS_MAX of them suffice: then in whole MiB. */
static uint64_t part_bytes(uint64_t bytes, uint64_t part)
{
    const uint64_t unit = (uint64_t)1 << 20;
    uint64_t least = (bytes + OBJECTS_PARTS_MAX - 1) / OBJECTS_PARTS_MAX;
    part = part < OBJECTS_PART_MIN ? OBJECTS_PART_MIN : part;
    return least <= part ? part : (least + unit - 1) / unit * unit;
}

/* One upload from its beginning, or from where one broke off, to its end. */
static enum objects_result put_once(struct upload *u, bool resume, struct err *err)
{
    struct err ignored; /* that of the failure is the one to tell; what stays is removed by the next sweep */
    enum objects_result rc = resume ? find(u, err) : OBJECTS_OK;
    u->resumed = u->id != NULL;
    if (rc == OBJECTS_OK && !u->id)
        rc = begin(u, err);
    if (rc == OBJECTS_OK)
        rc = put_all(u, err);
    if (rc == OBJECTS_OK)
        rc = complete(u, err);
    if (rc == OBJECTS_ERROR && u->id) {
        u->once = true;
        (void)abort_upload(u, &ignored);
    }
    objects_answer_clear(&u->there);
    free(u->id);
    u->id = NULL;
    return rc;
}

/* What is kept with an object was said when its upload began. One that was begun for other content says so for ever: then it is made anew. */
enum objects_result objects_put_parts(struct objects *o, const char *key, const struct objects_source *source,
                                      uint64_t part, const char *hash, struct err *err)
{
    struct upload u = {.o = o, .key = key, .hash = hash, .source = source};
    u.part = part_bytes(source->bytes, part);
    u.count = (int)((source->bytes + u.part - 1) / u.part);
    u.etags = mem_zero((size_t)u.count, sizeof *u.etags);
    enum objects_result rc = put_once(&u, true, err);
    if (rc == OBJECTS_OK && u.resumed && !is_there(&u))
        rc = put_once(&u, false, err);
    free(u.etags);
    return rc;
}
