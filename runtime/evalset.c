/* evalset: see evalset.h. Exactly one of corpus, ids and data is there. */
#include "runtime/evalset.h"

#include <glob.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"
#include "runtime/data/corpus.h"
#include "runtime/data/data.h"
#include "runtime/data/encode.h"

#define IDS_MAX ((size_t)1 << 32) /* of text, in memory */

struct evalset {
    struct evalset_request r;
    struct corpus *corpus;
    struct data *data;
    struct encoded text; /* ids (count) */
    uint64_t count;      /* tokens of the row */
    uint64_t windows;
};

/* ---- text ---- */

static void append(struct encoded *all, const struct encoded *piece)
{
    if (piece->n == 0)
        return;
    bool masks = piece->counts || all->counts;
    all->ids = mem_grow(all->ids, all->n + piece->n, sizeof *all->ids);
    memcpy(all->ids + all->n, piece->ids, piece->n * sizeof *all->ids);
    if (masks) {
        bool first = !all->counts;
        all->counts = mem_grow(all->counts, all->n + piece->n, 1);
        if (first)
            memset(all->counts, 1, all->n);
        if (piece->counts)
            memcpy(all->counts + all->n, piece->counts, piece->n);
        else
            memset(all->counts + all->n, 1, piece->n);
    }
    all->n += piece->n;
}

/* What is wrong with a piece, and where: a line that is no record by its number. Always -1. */
static int wrong(const struct source *source, const struct piece *piece, const struct encoded *e,
                 struct err *err)
{
    if (e->bad_lines == 0)
        return err_set(err, "%s", e->err.text);
    return err_set(
        err,
        "%s:%" PRIu64 ": the line %s; mend it, or make token files with belay-train prepare, which can "
        "take another member (--field) and leave lines out (--skip-bad-lines)",
        source_path(source, piece->file), source_line(source, piece->file, e->bad_at), e->err.text);
}

static int encode_all(struct evalset *set, struct source *source, struct err *err)
{
    const struct tokenizer *t = set->r.tokenizer;
    struct tokenizer_scratch *scratch = tokenizer_scratch_new(t);
    struct piece piece;
    int rc = 0;
    err->text[0] = 0;
    while (rc == 0 && source_next(source, encode_may_cut(t), &piece, err)) {
        struct encoded e = {NULL};
        encode_piece(source, &piece, t, scratch, NULL, &e);
        if (e.err.text[0])
            rc = wrong(source, &piece, &e, err);
        else if (set->text.n + e.n > IDS_MAX)
            rc =
                err_set(err,
                        "%s is more text than can be measured at once; make token files of it by belay-train "
                        "prepare",
                        set->r.path);
        else
            append(&set->text, &e);
        encoded_clear(&e);
    }
    tokenizer_scratch_free(scratch);
    return rc == 0 && err->text[0] ? -1 : rc;
}

static int open_text(struct evalset *set, struct err *err)
{
    struct source *source = source_new();
    int rc = source_add(source, set->r.path, err);
    if (rc == 0)
        rc = encode_all(set, source, err);
    source_free(source);
    set->count = set->text.n;
    return rc;
}

/* ---- token files ---- */

static bool holds(const char *folder, const char *pattern)
{
    char *path = str_printf("%s/%s", folder, pattern);
    glob_t found;
    bool there = glob(path, GLOB_NOSORT, NULL, &found) == 0;
    if (there)
        globfree(&found);
    free(path);
    return there;
}

static bool is_folder_of_text(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && !holds(path, "index.json") && !holds(path, "*.bin");
}

/* Are the tokens of `what`, of the tokenizer `theirs` (0: not told), those of the model? */
static int check_tokens(const struct evalset *set, uint64_t theirs, const char *what, struct err *err)
{
    if (theirs == 0 || theirs == tokenizer_fingerprint(set->r.tokenizer))
        return 0;
    return err_set(err,
                   "%s was made with another tokenizer than the model's, %s; make token files with that by "
                   "belay-train prepare, or give the text itself",
                   what, tokenizer_name(set->r.tokenizer));
}

static int open_row(struct evalset *set, struct err *err)
{
    if (is_folder_of_text(set->r.path))
        return open_text(set, err);
    set->corpus = corpus_open(set->r.path, err);
    if (!set->corpus)
        return -1;
    if (!corpus_is_text(set->corpus)) {
        set->count = corpus_tokens(set->corpus);
        return check_tokens(set, corpus_tokenizer(set->corpus), set->r.path, err);
    }
    corpus_close(set->corpus);
    set->corpus = NULL;
    return open_text(set, err);
}

static int cut_row(struct evalset *set, struct err *err)
{
    uint64_t targets = set->count > 0 ? set->count - 1 : 0, t = set->r.context, stride = set->r.stride;
    if (targets == 0)
        return err_set(err, "%s has %s; a token can be predicted from the second on", set->r.path,
                       set->count ? "one token" : "no token");
    set->windows = targets <= t ? 1 : 1 + (targets - t + stride - 1) / stride;
    return 0;
}

/* ---- a job's ---- */

static int open_held(struct evalset *set, struct err *err)
{
    const struct job_train *train = set->r.train;
    if (train->model.vocab > set->r.vocab)
        return err_set(err, "the job's tokens are below %lld, the model's vocabulary is %lld",
                       (long long)train->model.vocab, (long long)set->r.vocab);
    set->data = data_open(train, err);
    if (!set->data)
        return -1;
    if (check_tokens(set, data_tokenizer(set->data), "the job's train.data", err) != 0)
        return -1;
    set->windows = data_held(set->data);
    return set->windows > 0
               ? 0
               : err_set(err,
                         "the job has nothing to evaluate on (train.eval.path, train.data.holdout); give "
                         "--data PATH");
}

/* ---- both ---- */

struct evalset *evalset_open(const struct evalset_request *request, struct err *err)
{
    struct evalset *set = mem_zero(1, sizeof *set);
    set->r = *request;
    int rc = set->r.train ? open_held(set, err) : open_row(set, err);
    if (rc == 0 && !set->r.train)
        rc = cut_row(set, err);
    if (rc == 0)
        return set;
    evalset_close(set);
    return NULL;
}

void evalset_close(struct evalset *set)
{
    if (!set)
        return;
    corpus_close(set->corpus);
    data_close(set->data);
    encoded_clear(&set->text);
    free(set);
}

uint64_t evalset_windows(const struct evalset *set)
{
    return set->windows;
}

/* Tokens at..at+n-1 of the row. */
static int read_row(const struct evalset *set, uint64_t at, size_t n, bool as_targets, int32_t *out,
                    struct err *err)
{
    if (set->corpus)
        return corpus_read(set->corpus, at, n, set->r.vocab, as_targets, out, err);
    memcpy(out, set->text.ids + at, n * sizeof *out);
    for (size_t i = 0; as_targets && set->text.counts && i < n; i++)
        out[i] = set->text.counts[at + i] ? out[i] : -1;
    return 0;
}

int evalset_fill(const struct evalset *set, uint64_t i, int32_t *tokens, int32_t *targets, struct err *err)
{
    if (set->data)
        return data_fill_held(set->data, i, 1, tokens, targets, err);
    size_t t = set->r.context, read = i > 0 ? t - set->r.stride : 0;
    uint64_t at = i * set->r.stride, left = set->count - 1 - at;
    size_t n = left < t ? (size_t)left : t;
    memset(tokens, 0, t * sizeof *tokens);
    if (read_row(set, at, n, false, tokens, err) != 0 || read_row(set, at + 1, n, true, targets, err) != 0)
        return -1;
    for (size_t j = 0; j < t; j++)
        targets[j] = j < read || j >= n ? -1 : targets[j];
    return 0;
}
