/* objects_xml: see objects_xml.h. Expat tells of elements; a field is known by its name and by how deep it stands: 2 below the root, 3 within an item. */
#include "checkpoint/objects_xml.h"

#include <errno.h>
#include <expat.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/objects.h"
#include "common/mem.h"

#define DEPTH_MAX 16
#define ITEMS_MAX 100000
#define COUNT(a)  (sizeof(a) / sizeof(a)[0])

struct reader {
    XML_Parser parser;
    struct objects_answer *out;
    size_t room;
    int depth;
    bool in_item;
    char text[OBJECTS_TEXT_MAX + 1]; /* of the innermost element */
    size_t len;
    const char *wrong; /* why the parser was stopped */
};

static void stop(struct reader *r, const char *why)
{
    if (!r->wrong)
        r->wrong = why;
    XML_StopParser(r->parser, XML_FALSE);
}

/* ---- fields ---- */

enum kind { TEXT, TRUTH, BYTES, PART };
struct field {
    const char *name;
    enum kind kind;
    size_t at;
};

#define TOP(name, kind, member)                                                                              \
    {                                                                                                        \
        name, kind, offsetof(struct objects_answer, member)                                                  \
    }
#define ITEM(name, kind, member)                                                                             \
    {                                                                                                        \
        name, kind, offsetof(struct objects_item, member)                                                    \
    }
static const struct field top_fields[] = {
    TOP("Code", TEXT, code),
    TOP("Message", TEXT, message),
    TOP("Region", TEXT, region),
    TOP("UploadId", TEXT, upload_id),
    TOP("ETag", TEXT, etag),
    TOP("IsTruncated", TRUTH, truncated),
    TOP("NextContinuationToken", TEXT, next_token),
    TOP("NextKeyMarker", TEXT, next_key),
    TOP("NextUploadIdMarker", TEXT, next_id),
    TOP("NextPartNumberMarker", TEXT, next_part),
};
static const struct field item_fields[] = {
    ITEM("Key", TEXT, key),   ITEM("Prefix", TEXT, key),  ITEM("UploadId", TEXT, id),
    ITEM("ETag", TEXT, etag), ITEM("Size", BYTES, bytes), ITEM("PartNumber", PART, part),
};
static const char *const item_names[] = {"Contents", "CommonPrefixes", "Part", "Upload"};

/* False when it is no whole number from min to max. */
static bool read_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    size_t digits = strspn(text, "0123456789");
    errno = 0;
    *out = strtoull(text, NULL, 10);
    return digits > 0 && !text[digits] && errno == 0 && *out >= min && *out <= max;
}

static void set_text(struct reader *r, char **out)
{
    if (*out) {
        stop(r, "a field stands there twice");
        return;
    }
    *out = str_dup(r->text);
}

static void set_field(struct reader *r, const struct field *f, void *record)
{
    void *at = (char *)record + f->at;
    uint64_t number = 0;
    switch (f->kind) {
    case TEXT:
        set_text(r, at);
        break;
    case TRUTH:
        *(bool *)at = strcmp(r->text, "true") == 0;
        break;
    case BYTES:
        if (!read_number(r->text, 0, INT64_MAX, at))
            stop(r, "a Size is no number");
        break;
    case PART:
        if (!read_number(r->text, 1, OBJECTS_PARTS_MAX, &number))
            stop(r, "a PartNumber is no number from 1 to 10000");
        *(int *)at = (int)number;
        break;
    }
}

static void take_field(struct reader *r, const struct field *fields, size_t count, const char *name,
                       void *record)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].name, name) == 0)
            set_field(r, &fields[i], record);
}

/* ---- elements ---- */

/* Some servers leave the namespace's prefix in. */
static const char *local(const char *name)
{
    const char *colon = strrchr(name, ':');
    return colon ? colon + 1 : name;
}

static void begin_item(struct reader *r, const char *name)
{
    struct objects_answer *a = r->out;
    r->in_item = false;
    for (size_t i = 0; i < COUNT(item_names); i++)
        r->in_item |= strcmp(item_names[i], name) == 0;
    if (!r->in_item)
        return;
    if (a->n_items == ITEMS_MAX) {
        stop(r, "it has too many entries");
        return;
    }
    if (a->n_items == r->room)
        a->items = mem_one_more(a->items, a->n_items, &r->room, sizeof *a->items);
    a->items[a->n_items++] = (struct objects_item){.folder = strcmp(name, "CommonPrefixes") == 0};
}

static void XMLCALL on_start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    struct reader *r = arg;
    (void)attributes;
    r->len = 0;
    r->text[0] = 0;
    if (++r->depth > DEPTH_MAX)
        stop(r, "it is nested too deep");
    else if (r->depth == 1)
        r->out->root = str_dup(local(name));
    else if (r->depth == 2)
        begin_item(r, local(name));
}

static void XMLCALL on_end(void *arg, const XML_Char *name)
{
    struct reader *r = arg;
    int depth = r->depth--;
    if (r->wrong)
        return;
    if (depth == 2 && !r->in_item)
        take_field(r, top_fields, COUNT(top_fields), local(name), r->out);
    else if (depth == 3 && r->in_item)
        take_field(r, item_fields, COUNT(item_fields), local(name), &r->out->items[r->out->n_items - 1]);
    r->len = 0;
    r->text[0] = 0;
}

static void XMLCALL on_text(void *arg, const XML_Char *text, int len)
{
    struct reader *r = arg;
    if ((size_t)len > OBJECTS_TEXT_MAX - r->len) {
        stop(r, "an element holds too much text");
        return;
    }
    memcpy(r->text + r->len, text, (size_t)len);
    r->len += (size_t)len;
    r->text[r->len] = 0;
}

static void XMLCALL on_doctype(void *arg, const XML_Char *name, const XML_Char *system, const XML_Char *pub,
                               int internal)
{
    (void)name, (void)system, (void)pub, (void)internal;
    stop(arg, "it has a DOCTYPE");
}

/* ---- all ---- */

int objects_answer_read(const char *text, size_t len, struct objects_answer *out, struct err *err)
{
    struct reader *r = mem_zero(1, sizeof *r);
    int rc = 0;
    *out = (struct objects_answer){.root = NULL};
    r->out = out;
    r->parser = XML_ParserCreate("UTF-8");
    if (!r->parser)
        abort(); /* out of memory, as mem_zero does */
    XML_SetUserData(r->parser, r);
    XML_SetElementHandler(r->parser, on_start, on_end);
    XML_SetCharacterDataHandler(r->parser, on_text);
    XML_SetStartDoctypeDeclHandler(r->parser, on_doctype);
    if (len > OBJECTS_XML_MAX)
        rc = err_set(err, "the answer is larger than %u MiB", OBJECTS_XML_MAX >> 20);
    else if (XML_Parse(r->parser, text, (int)len, XML_TRUE) != XML_STATUS_OK)
        rc = err_set(err, "the answer cannot be understood: %s",
                     r->wrong ? r->wrong : XML_ErrorString(XML_GetErrorCode(r->parser)));
    if (rc != 0)
        objects_answer_clear(out);
    XML_ParserFree(r->parser);
    free(r);
    return rc;
}

void objects_answer_clear(struct objects_answer *a)
{
    for (size_t i = 0; i < a->n_items; i++) {
        free(a->items[i].key);
        free(a->items[i].id);
        free(a->items[i].etag);
    }
    free(a->items);
    char *texts[] = {a->root, a->code,       a->message,  a->region,  a->upload_id,
                     a->etag, a->next_token, a->next_key, a->next_id, a->next_part};
    for (size_t i = 0; i < COUNT(texts); i++)
        free(texts[i]);
    *a = (struct objects_answer){.root = NULL};
}
