/* corpus: see corpus.h. `starts` holds where in the row each shard begins, and at its end how many tokens there are. */
#include "runtime/data/corpus.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/mem.h"
#include "runtime/data/indexfile.h"
#include "runtime/data/shard.h"
#include "runtime/text/tokenizer.h"

struct corpus {
    char *path;
    struct shard *shards;
    uint64_t *starts; /* n + 1 */
    size_t n;
    uint64_t vocab, tokenizer;
    bool text;
};

/* ---- names of files ---- */

struct names {
    char **list;
    size_t n, room;
};

static void names_add(struct names *names, char *name)
{
    names->list = mem_one_more(names->list, names->n, &names->room, sizeof *names->list);
    names->list[names->n++] = name;
}

static void names_clear(struct names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->list[i]);
    free(names->list);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* By their bytes: what readdir and glob give depends on the file system and the locale. */
static void names_sort(struct names *names)
{
    if (names->n > 1)
        qsort(names->list, names->n, sizeof *names->list, compare);
}

static bool ends_in(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Whether the file's name has `word` between ends, digits and punctuation: train.bin, x_train.bin and x_train_000001.bin have "train". */
static bool name_has(const char *path, const char *word)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (const char *at = name; (at = strstr(at, word)) != NULL; at++)
        if ((at == name || !isalpha((unsigned char)at[-1])) && !isalpha((unsigned char)at[strlen(word)]))
            return true;
    return false;
}

static bool is_for_evaluation(const char *path)
{
    static const char *const words[] = {"val", "valid", "validation", "eval", "test"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (name_has(path, words[i]))
            return true;
    return false;
}

/* nanoGPT and llm.c keep the part for evaluation beside the one for training: whoever names the folder would train on both. */
static int check_split(const struct names *names, const char *path, struct err *err)
{
    const char *train = NULL, *val = NULL;
    for (size_t i = 0; i < names->n; i++)
        if (is_for_evaluation(names->list[i]))
            val = names->list[i];
        else if (name_has(names->list[i], "train"))
            train = names->list[i];
    if (train && val)
        return err_set(
            err,
            "%s holds token files for training and for evaluation (%s, %s); name the ones that are meant, "
            "e.g. %s/*train*.bin for train.data.path and the others for train.eval.path",
            path, train, val, path);
    return 0;
}

static int list_folder(const char *path, struct names *names, struct err *err)
{
    DIR *folder = opendir(path);
    if (!folder)
        return err_sys(err, "cannot open the folder %s", path);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.' && ends_in(entry->d_name, ".bin"))
            names_add(names, str_printf("%s/%s", path, entry->d_name));
    closedir(folder);
    if (names->n == 0)
        return err_set(
            err,
            "the folder %s holds no token files (*.bin); make them from text with: belay-train prepare "
            "--out FOLDER %s",
            path, path);
    names_sort(names);
    return check_split(names, path, err);
}

static int list_pattern(const char *path, struct names *names, struct err *err)
{
    glob_t found;
    int rc = glob(path, GLOB_NOSORT, NULL, &found);
    if (rc == GLOB_NOMATCH)
        return err_set(err, "no file is named like %s (train.data)", path);
    if (rc != 0)
        return err_set(
            err, "cannot look for files named like %s (train.data); check the folder's permissions", path);
    for (size_t i = 0; i < found.gl_pathc; i++)
        names_add(names, str_dup(found.gl_pathv[i]));
    globfree(&found);
    names_sort(names);
    return 0;
}

/* FILE.idx, or FILE of FILE.bin and FILE.idx, is FILE.bin. */
static char *bin_of(const char *path)
{
    char *bin = ends_in(path, ".idx")     ? str_printf("%.*s.bin", (int)strlen(path) - 4, path)
                : access(path, F_OK) != 0 ? str_printf("%s.bin", path)
                                          : NULL;
    if (bin && shard_has_index(bin))
        return bin;
    free(bin);
    return str_dup(path);
}

static int list_files(const char *path, struct names *names, struct err *err)
{
    if (is_folder(path))
        return list_folder(path, names, err);
    if (access(path, F_OK) != 0 && strpbrk(path, "*?["))
        return list_pattern(path, names, err);
    names_add(names, bin_of(path));
    return 0;
}

/* ---- opening ---- */

static int too_many(const struct corpus *c, size_t n, struct err *err)
{
    if (n <= INDEXFILE_SHARDS_MAX)
        return 0;
    return err_set(err, "%s has %zu token files; at most %d can be open: join them into larger ones", c->path,
                   n, INDEXFILE_SHARDS_MAX);
}

static int open_shards(struct corpus *c, const struct names *names, struct err *err)
{
    if (too_many(c, names->n, err) != 0)
        return -1;
    c->shards = mem_zero(names->n, sizeof *c->shards);
    c->starts = mem_zero(names->n + 1, sizeof *c->starts);
    for (; c->n < names->n; c->n++) {
        if (shard_open(names->list[c->n], &c->shards[c->n], err) != 0)
            return -1;
        c->starts[c->n + 1] = c->starts[c->n] + c->shards[c->n].layout.count;
    }
    return 0;
}

static int bytes_fingerprint(uint64_t *out, struct err *err)
{
    struct tokenizer *t = tokenizer_open("bytes", err);
    if (!t)
        return -1;
    *out = tokenizer_fingerprint(t);
    tokenizer_free(t);
    return 0;
}

/* Files of one corpus must come from one tokenizer, as far as they say. */
static int agree(struct corpus *c, struct err *err)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < c->n; i++) {
        const struct token_layout *l = &c->shards[i].layout;
        bool text = !ends_in(c->shards[i].path, ".bin");
        if (text && bytes == 0 && bytes_fingerprint(&bytes, err) != 0)
            return -1;
        uint64_t fingerprint = text ? bytes : l->fingerprint;
        if (fingerprint && c->tokenizer && fingerprint != c->tokenizer)
            return err_set(
                err, "%s was made with another tokenizer than the files beside it; prepare them together",
                c->shards[i].path);
        c->tokenizer = fingerprint ? fingerprint : c->tokenizer;
        c->vocab = l->vocab > c->vocab ? l->vocab : c->vocab;
        c->text |= text;
        if (c->text && c->vocab < 256)
            c->vocab = 256;
    }
    return 0;
}

static int check_counts(const struct corpus *c, const struct indexfile *x, const char *path, struct err *err)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->shards[i].layout.count != x->shards[i].tokens)
            return err_set(err,
                           "%s has %" PRIu64 " tokens, but %s says %" PRIu64 "; prepare the folder again",
                           c->shards[i].path, c->shards[i].layout.count, path, x->shards[i].tokens);
    return 0;
}

/* folder: where index.json is */
static int open_prepared(struct corpus *c, const char *index, struct err *err)
{
    struct indexfile x;
    struct names names = {.n = 0};
    if (indexfile_read(index, &x, err) != 0)
        return -1;
    int folder = (int)(strlen(index) - strlen(INDEXFILE_NAME));
    for (size_t i = 0; i < x.n_shards; i++)
        names_add(&names, str_printf("%.*s%s", folder, index, x.shards[i].file));
    int rc = open_shards(c, &names, err);
    if (rc == 0)
        rc = check_counts(c, &x, index, err);
    c->vocab = (uint64_t)x.vocab;
    c->tokenizer = x.fingerprint;
    names_clear(&names);
    indexfile_clear(&x);
    return rc;
}

static int open_files(struct corpus *c, struct err *err)
{
    struct names names = {.n = 0};
    int rc = list_files(c->path, &names, err);
    if (rc == 0)
        rc = open_shards(c, &names, err);
    names_clear(&names);
    return rc;
}

static int open_parts(struct corpus *c, struct err *err)
{
    char *index = is_folder(c->path) ? str_printf("%s/" INDEXFILE_NAME, c->path) : str_dup(c->path);
    size_t n = strlen(index), m = strlen(INDEXFILE_NAME);
    bool named = n >= m && strcmp(index + n - m, INDEXFILE_NAME) == 0 && (n == m || index[n - m - 1] == '/');
    int rc = named && access(index, F_OK) == 0 ? open_prepared(c, index, err) : open_files(c, err);
    free(index);
    return rc == 0 ? agree(c, err) : -1;
}

struct corpus *corpus_open(const char *path, struct err *err)
{
    struct corpus *c = mem_zero(1, sizeof *c);
    c->path = str_dup(path);
    if (open_parts(c, err) == 0)
        return c;
    corpus_close(c);
    return NULL;
}

void corpus_close(struct corpus *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n; i++)
        shard_close(&c->shards[i]);
    free(c->shards);
    free(c->starts);
    free(c->path);
    free(c);
}

uint64_t corpus_tokens(const struct corpus *c)
{
    return c->starts[c->n];
}

size_t corpus_shards(const struct corpus *c)
{
    return c->n;
}

const char *corpus_path(const struct corpus *c)
{
    return c->path;
}

uint64_t corpus_vocab(const struct corpus *c)
{
    return c->vocab;
}

uint64_t corpus_tokenizer(const struct corpus *c)
{
    return c->tokenizer;
}

bool corpus_is_text(const struct corpus *c)
{
    return c->text;
}

uint64_t corpus_fingerprint(const struct corpus *c)
{
    uint64_t hash = c->n;
    for (size_t i = 0; i < c->n; i++) {
        uint64_t of_shard = shard_fingerprint(&c->shards[i]);
        hash = XXH3_64bits_withSeed(&of_shard, sizeof of_shard, hash);
    }
    return hash;
}

/* ---- reading ---- */

/* The shard that holds token `at`: the last one that begins at or before it and is not empty. */
static size_t find_shard(const struct corpus *c, uint64_t at)
{
    size_t low = 0, high = c->n - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (at < c->starts[middle + 1])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int corpus_read(const struct corpus *c, uint64_t at, size_t n, int64_t vocab, bool as_targets, int32_t *out,
                struct err *err)
{
    for (size_t i = find_shard(c, at); n > 0; i++) {
        const struct shard *s = &c->shards[i];
        uint64_t from = at - c->starts[i], left = s->layout.count - from;
        size_t take = left < n ? (size_t)left : n;
        if (shard_read(s, from, take, vocab, out) != 0)
            return err_set(err,
                           "%s has a token that is negative or not below train.model.vocab (%" PRId64
                           ") in its tokens %" PRIu64 " to %" PRIu64 "; raise vocab or make the file again",
                           s->path, vocab, from, from + take - 1);
        if (as_targets)
            shard_mask(s, from, take, out);
        at += take;
        out += take;
        n -= take;
    }
    return 0;
}
