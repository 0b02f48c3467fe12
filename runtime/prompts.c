/* prompts: see prompts.h. */
#include "runtime/prompts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "schema/scalar.h"

#define BYTES_MAX ((size_t)64 << 20) /* of a prompt file */
#define IDS_MAX   ((size_t)1 << 24)

static struct prompt *add(struct prompts *p)
{
    p->list = mem_grow(p->list, p->n + 1, sizeof *p->list);
    p->list[p->n] = (struct prompt){NULL, 0};
    return &p->list[p->n++];
}

static int add_text(struct prompts *p, const struct tokenizer *t, struct tokenizer_scratch *s,
                    const char *text, size_t len, struct err *err)
{
    struct prompt *prompt = add(p);
    size_t room = 0;
    tokenizer_encode(t, s, text, len, &prompt->ids, &prompt->n, &room);
    if (prompt->n > 0)
        return 0;
    if (tokenizer_end(t) < 0)
        return err_set(err,
                       "prompt %zu is empty, and the tokenizer has no end of text to begin after; write at "
                       "least one character",
                       p->n);
    free(prompt->ids);
    prompt->ids = mem_zero(1, sizeof *prompt->ids);
    prompt->ids[prompt->n++] = tokenizer_end(t);
    return 0;
}

static int add_lines(struct prompts *p, const struct tokenizer *t, struct tokenizer_scratch *s,
                     const char *text, size_t len, struct err *err)
{
    size_t at = 0;
    do {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - (text + at)) : len - at;
        if (add_text(p, t, s, text + at, n, err) != 0)
            return -1;
        at += n + 1;
    } while (at <= len);
    return 0;
}

static int add_file(struct prompts *p, const struct prompts_request *r, const struct tokenizer *t,
                    struct tokenizer_scratch *s, struct err *err)
{
    bool named = r->file && strcmp(r->file, "-") != 0;
    size_t len;
    if (!r->file && isatty(STDIN_FILENO))
        return err_set(err, "there is nothing to go on from; give --prompt TEXT or --prompt-file FILE");
    char *text = fs_read(named ? r->file : "/dev/stdin", BYTES_MAX, &len, err);
    if (!text)
        return -1;
    if (len > 0 && text[len - 1] == '\n')
        len--;
    int rc = r->lines ? add_lines(p, t, s, text, len, err) : add_text(p, t, s, text, len, err);
    free(text);
    return rc;
}

static int add_ids(struct prompts *p, const char *list, struct err *err)
{
    struct prompt *prompt = add(p);
    size_t room = 0;
    char *copy = str_dup(list), *rest = copy, *word;
    int rc = 0;
    while (rc == 0 && (word = strsep(&rest, ",")) != NULL) {
        int64_t id = 0;
        rc = scalar_int(word, 0, INT32_MAX, &id, err);
        if (rc == 0 && prompt->n == IDS_MAX)
            rc = err_set(err, "has more than %zu ids", IDS_MAX);
        prompt->ids = mem_one_more(prompt->ids, prompt->n, &room, sizeof *prompt->ids);
        prompt->ids[prompt->n++] = (int32_t)id;
    }
    free(copy);
    return rc == 0 ? 0 : err_prefix(err, "--prompt-ids");
}

/* Puts the token before each prompt that models like Llama 3 have seen at the beginning of every text. */
static int put_begin(struct prompts *p, const struct tokenizer *t, struct err *err)
{
    int32_t id = tokenizer_special(t, "<|begin_of_text|>");
    id = id >= 0 ? id : tokenizer_special(t, "<s>");
    if (id < 0)
        return err_set(err, "the tokenizer %s has no begin of text; leave out --begin", tokenizer_name(t));
    for (size_t i = 0; i < p->n; i++) {
        struct prompt *prompt = &p->list[i];
        prompt->ids = mem_grow(prompt->ids, prompt->n + 1, sizeof *prompt->ids);
        memmove(prompt->ids + 1, prompt->ids, prompt->n++ * sizeof *prompt->ids);
        prompt->ids[0] = id;
    }
    return 0;
}

int prompts_load(const struct prompts_request *request, const struct tokenizer *tokenizer,
                 struct prompts *prompts, struct err *err)
{
    *prompts = (struct prompts){NULL, 0};
    if (request->ids)
        return add_ids(prompts, request->ids, err); /* as they are */
    struct tokenizer_scratch *s = tokenizer_scratch_new(tokenizer);
    int rc = request->text ? add_text(prompts, tokenizer, s, request->text, strlen(request->text), err)
                           : add_file(prompts, request, tokenizer, s, err);
    tokenizer_scratch_free(s);
    return rc == 0 && request->begin ? put_begin(prompts, tokenizer, err) : rc;
}

void prompts_clear(struct prompts *prompts)
{
    for (size_t i = 0; i < prompts->n; i++)
        free(prompts->list[i].ids);
    free(prompts->list);
    *prompts = (struct prompts){NULL, 0};
}
