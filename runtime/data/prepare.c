/* prepare: see prepare.h.
 *
 * The sources are cut into numbered pieces. Threads take the next number, encode its piece, and leave the result in the slot `number % slots`; the
 * calling thread writes the results in the order of their numbers. A thread waits when it would run further ahead than there are slots, so that
 * memory stays bounded. All of `struct work` below `mutex` is changed with it held. */
#include "runtime/data/prepare.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/data/encode.h"
#include "runtime/data/indexfile.h"
#include "runtime/data/outfolder.h"
#include "runtime/data/shardwriter.h"
#include "runtime/data/source.h"
#include "runtime/text/bpe_trainer.h"

#define SLOTS_PER_JOB 3 /* one being encoded, and two ready: the writer is faster than any one thread */

struct slot {
    bool ready;
    struct piece piece;
    struct encoded result;
};

struct work {
    const struct prepare_options *options;
    const struct tokenizer *tokenizer;
    struct source *source;
    bool cut;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct slot *slots;
    size_t n_slots;
    uint64_t planned, written; /* pieces handed out; pieces written */
    bool all_planned, stop;
    struct err read_err; /* why the planning stopped, or "" */
};

struct teller {
    void (*tell)(void *arg, const struct prepare_progress *p);
    void *arg;
};

static void tell(const struct teller *t, const struct prepare_progress *p)
{
    if (t->tell)
        t->tell(t->arg, p);
}

static void begin_phase(struct prepare_progress *p, const char *phase, const char *unit, uint64_t all)
{
    p->phase = phase;
    p->unit = unit;
    p->done = 0;
    p->all = all;
}

/* ---- threads ---- */

/* With the mutex held: the next piece and its number; false when there is none left. */
static bool plan_piece(struct work *w, struct piece *piece, uint64_t *number)
{
    while (!w->stop && !w->all_planned && w->planned - w->written >= w->n_slots)
        pthread_cond_wait(&w->changed, &w->mutex);
    if (w->stop || w->all_planned)
        return false;
    if (source_next(w->source, w->cut, piece, &w->read_err)) {
        *number = w->planned++;
        return true;
    }
    w->all_planned = true;
    pthread_cond_broadcast(&w->changed);
    return false;
}

static void *encode_pieces(void *arg)
{
    struct work *w = arg;
    struct piece piece;
    uint64_t number;
    struct tokenizer_scratch *scratch = tokenizer_scratch_new(w->tokenizer);
    pthread_mutex_lock(&w->mutex);
    while (plan_piece(w, &piece, &number)) {
        struct slot slot = {.ready = true, .piece = piece};
        pthread_mutex_unlock(&w->mutex);
        encode_piece(w->source, &piece, w->tokenizer, scratch, w->options->field, &slot.result);
        pthread_mutex_lock(&w->mutex);
        w->slots[number % w->n_slots] = slot;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->mutex);
    tokenizer_scratch_free(scratch);
    return NULL;
}

/* Waits for the result of the next piece in order; false when there are no more. */
static bool next_result(struct work *w, struct slot *out)
{
    pthread_mutex_lock(&w->mutex);
    struct slot *slot = &w->slots[w->written % w->n_slots];
    while (!slot->ready && !(w->all_planned && w->written == w->planned))
        pthread_cond_wait(&w->changed, &w->mutex);
    bool found = slot->ready;
    if (found) {
        *out = *slot;
        *slot = (struct slot){.ready = false};
        w->written++;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->mutex);
    return found;
}

static void stop_threads(struct work *w, pthread_t *threads, int n)
{
    pthread_mutex_lock(&w->mutex);
    w->stop = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

/* ---- results ---- */

/* The sentence for a line that is no record: file, number, what, and what to do. Always -1. */
static int bad_line(const struct work *w, const struct slot *slot, const char *advice, struct err *err)
{
    const char *path = source_path(w->source, slot->piece.file);
    uint64_t line = source_line(w->source, slot->piece.file, slot->result.bad_at);
    return err_set(err, "%s:%" PRIu64 ": the line %s%s", path, line, slot->result.err.text, advice);
}

static int judge(const struct work *w, const struct slot *slot, struct prepare_progress *p, struct err *err)
{
    const struct encoded *e = &slot->result;
    if (e->bad_lines == 0)
        return e->err.text[0] ? err_set(err, "%s", e->err.text) : 0;
    if (!w->options->skip_bad_lines)
        return bad_line(
            w, slot,
            "; mend it, take another member with --field, or leave such lines out with --skip-bad-lines",
            err);
    if (p->bad_lines == 0)
        bad_line(w, slot, "", &p->bad);
    p->bad_lines += e->bad_lines;
    return 0;
}

static int write_result(const struct work *w, const struct slot *slot, struct shardwriter *writer,
                        struct prepare_progress *p, struct err *err)
{
    const struct encoded *e = &slot->result;
    if (judge(w, slot, p, err) != 0 || shardwriter_add(writer, e->ids, e->counts, e->n, err) != 0)
        return -1;
    p->done += slot->piece.len;
    p->tokens += e->n;
    p->documents += e->documents;
    p->text_bytes += e->text_bytes;
    return 0;
}

static int write_results(struct work *w, struct shardwriter *writer, const struct teller *teller,
                         struct prepare_progress *p, struct err *err)
{
    struct slot slot;
    int rc = 0;
    while (rc == 0 && next_result(w, &slot)) {
        rc = write_result(w, &slot, writer, p, err);
        encoded_clear(&slot.result);
        tell(teller, p);
    }
    if (rc == 0 && w->read_err.text[0])
        rc = err_set(err, "%s", w->read_err.text);
    return rc;
}

/* Runs the threads around write_results. */
static int encode_all(struct work *w, struct shardwriter *writer, const struct teller *teller,
                      struct prepare_progress *p, struct err *err)
{
    int jobs = w->options->jobs, started = 0, rc = 0;
    pthread_t *threads = mem_zero((size_t)jobs, sizeof *threads);
    w->n_slots = (size_t)jobs * SLOTS_PER_JOB;
    w->slots = mem_zero(w->n_slots, sizeof *w->slots);
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, NULL);
    while (started < jobs && pthread_create(&threads[started], NULL, encode_pieces, w) == 0)
        started++;
    rc = started > 0 ? write_results(w, writer, teller, p, err)
                     : err_set(err, "cannot start a thread; is a limit of processes reached (ulimit -u)?");
    stop_threads(w, threads, started);
    for (size_t i = 0; i < w->n_slots; i++)
        encoded_clear(&w->slots[i].result);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    free(w->slots);
    free(threads);
    return rc;
}

/* ---- the folder ---- */

/* The folder has the tokenizer in it, so that it can be used, and moved, by itself. */
static int put_tokenizer(const struct work *w, struct indexfile *x, struct err *err)
{
    bool bytes = strcmp(tokenizer_name(w->tokenizer), "bytes") == 0;
    x->tokenizer = str_dup(bytes ? "bytes" : "tokenizer.json");
    x->fingerprint = tokenizer_fingerprint(w->tokenizer);
    x->vocab = (int64_t)tokenizer_vocab(w->tokenizer);
    x->end = tokenizer_end(w->tokenizer);
    if (bytes)
        return 0;
    char *path = str_printf("%s/tokenizer.json", w->options->out);
    int rc = tokenizer_write_json(w->tokenizer, path, err);
    free(path);
    return rc;
}

static int put_index(const struct work *w, struct indexfile *x, const struct prepare_progress *p,
                     struct err *err)
{
    if (x->tokens == 0)
        return err_set(err, "there is no text in the inputs; nothing was made");
    if (x->masked == x->tokens)
        return err_set(err,
                       "no token counts as a target: the inputs have prompts, but every completion is empty");
    char *path = str_printf("%s/" INDEXFILE_NAME, w->options->out);
    x->documents = p->documents;
    x->text_bytes = p->text_bytes;
    int rc = indexfile_write(path, x, err);
    free(path);
    return rc;
}

static int fill(struct work *w, const struct teller *teller, struct prepare_progress *p, struct err *err)
{
    struct indexfile x = {.tokenizer = NULL};
    int rc = put_tokenizer(w, &x, err);
    struct token_layout layout = {.type = x.vocab <= 65536 ? TOKEN_U16 : TOKEN_U32,
                                  .vocab = (uint64_t)x.vocab,
                                  .end = x.end,
                                  .fingerprint = x.fingerprint};
    struct shardwriter *writer = shardwriter_new(w->options->out, &layout, w->options->shard_tokens);
    if (rc == 0)
        rc = encode_all(w, writer, teller, p, err);
    if (rc == 0)
        rc = shardwriter_finish(writer, &x, err);
    if (rc == 0)
        rc = put_index(w, &x, p, err);
    p->shards = x.n_shards;
    p->masked = x.masked;
    p->vocab = x.vocab;
    shardwriter_free(writer);
    indexfile_clear(&x);
    return rc;
}

static struct source *open_source(const struct prepare_options *options, struct prepare_progress *p,
                                  struct err *err)
{
    struct source *source = source_new();
    for (size_t i = 0; i < options->n_inputs; i++) {
        if (source_add(source, options->inputs[i], err) != 0) {
            source_free(source);
            return NULL;
        }
    }
    p->bytes = source_bytes(source);
    p->files = source_files(source);
    p->left_out = source_left_out(source);
    return source;
}

/* ---- the tokenizer ---- */

struct merging {
    const struct teller *teller;
    struct prepare_progress *p;
};

static void on_merge(void *arg, size_t done, size_t all)
{
    struct merging *m = arg;
    m->p->done = done;
    m->p->all = all;
    tell(m->teller, m->p);
}

static void add_text(void *arg, const char *text, size_t len)
{
    bpe_trainer_add(arg, text, len);
}

/* Hands all texts to the trainer. */
static int read_texts(const struct work *w, struct bpe_trainer *trainer, const struct teller *teller,
                      struct prepare_progress *p, struct err *err)
{
    struct piece piece;
    struct err why = {""};
    begin_phase(p, "reading", "B", p->bytes);
    while (source_next(w->source, true, &piece, &why)) {
        if (encode_texts(w->source, &piece, w->options->field, add_text, trainer, err) != 0)
            return -1;
        p->done += piece.len;
        tell(teller, p);
    }
    source_rewind(w->source);
    return why.text[0] ? err_set(err, "%s", why.text) : 0;
}

static struct tokenizer *train_tokenizer(const struct work *w, const struct teller *teller,
                                         struct prepare_progress *p, struct err *err)
{
    const struct prepare_options *o = w->options;
    struct tokenizer *t = NULL;
    struct merging merging = {teller, p};
    struct bpe_trainer *trainer = bpe_trainer_new(o->split, (unsigned)o->jobs);
    if (read_texts(w, trainer, teller, p, err) == 0) {
        begin_phase(p, "learning merges", "", (uint64_t)o->train_vocab);
        t = bpe_trainer_finish(trainer, (size_t)o->train_vocab, on_merge, &merging, err);
    }
    bpe_trainer_free(trainer);
    return t;
}

int prepare(const struct prepare_options *options, void (*told)(void *arg, const struct prepare_progress *p),
            void *arg, struct prepare_progress *done, struct err *err)
{
    struct teller teller = {told, arg};
    struct work w = {.options = options};
    int rc = -1;
    *done = (struct prepare_progress){.phase = "looking"};
    w.source = open_source(options, done, err);
    if (!w.source)
        return -1;
    bool train = options->train_vocab > 0; /* which takes long: only when the folder is ours */
    struct tokenizer *tokenizer = train ? NULL : tokenizer_open(options->tokenizer, err);
    struct outfolder *folder = train || tokenizer ? outfolder_take(options->out, err) : NULL;
    if (train && folder)
        tokenizer = train_tokenizer(&w, &teller, done, err);
    if (tokenizer && folder) {
        w.tokenizer = tokenizer;
        w.cut = encode_may_cut(tokenizer);
        begin_phase(done, "tokenizing", "B", done->bytes);
        rc = fill(&w, &teller, done, err);
    }
    if (rc == 0)
        rc = outfolder_finish(folder, err);
    outfolder_close(folder);
    tokenizer_free(tokenizer);
    source_free(w.source);
    return rc;
}
