/* encode TOKENIZER [FILE.json]: the ids of the text on standard input, as 32-bit numbers, to standard output; with FILE.json the
 * tokenizer is written there instead. Fails when the ids do not decode to the text.
 * encode --kinds: a letter for each code point, 0 to 0x10ffff: Symbol, Letter, Number, Blank, R for a line break, U unassigned.
 * encode --train VOCAB FILE.json: a tokenizer trained on the text on standard input, cut as GPT-2 does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "common/mem.h"
#include "runtime/text/bpe_trainer.h"
#include "runtime/text/codepoint.h"
#include "runtime/text/tokenizer.h"

static char *read_all(FILE *in, size_t *len)
{
    char *text = NULL;
    size_t room = 0, n = 1;
    for (*len = 0; n > 0; *len += n) {
        if (room - *len < 65536)
            text = mem_grow(text, room = 2 * room + 65536, 1);
        n = fread(text + *len, 1, room - *len, in);
    }
    return text;
}

static int decodes_to(const struct tokenizer *t, const int32_t *ids, size_t count, const char *text,
                      size_t len)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t n;
        const char *bytes = tokenizer_bytes(t, ids[i], &n);
        if (!bytes || n > len - at || memcmp(bytes, text + at, n) != 0)
            return 0;
        at += n;
    }
    return at == len;
}

static int encode(const struct tokenizer *t)
{
    size_t len, count = 0, room = 0;
    int32_t *ids = NULL;
    char *text = read_all(stdin, &len);
    struct tokenizer_scratch *s = tokenizer_scratch_new(t);
    tokenizer_encode(t, s, text, len, &ids, &count, &room);
    int rc = decodes_to(t, ids, count, text, len) ? 0 : 1;
    if (rc)
        (void)fprintf(stderr, "the ids do not decode to the text\n");
    if (fwrite(ids, sizeof *ids, count, stdout) != count || fflush(stdout) != 0)
        rc = 1;
    tokenizer_scratch_free(s);
    free(ids);
    free(text);
    return rc;
}

static int print_kinds(void)
{
    for (int32_t c = 0; c <= 0x10ffff; c++)
        (void)putchar(utf8proc_category(c) == UTF8PROC_CATEGORY_CN ? 'U' : "SLNBR"[codepoint_kind(c)]);
    return fflush(stdout) == 0 ? 0 : 1;
}

static struct tokenizer *train(const char *vocab, struct err *err)
{
    size_t len;
    char *text = read_all(stdin, &len);
    struct bpe_trainer *tr = bpe_trainer_new(PRESPLIT_GPT2, 2);
    bpe_trainer_add(tr, text, len);
    struct tokenizer *t = bpe_trainer_finish(tr, strtoul(vocab, NULL, 10), NULL, NULL, err);
    bpe_trainer_free(tr);
    free(text);
    return t;
}

int main(int argc, char **argv)
{
    struct err err = {"usage: encode TOKENIZER [FILE.json] | --kinds | --train VOCAB FILE.json"};
    struct tokenizer *t = NULL;
    if (argc == 2 && strcmp(argv[1], "--kinds") == 0)
        return print_kinds();
    bool trains = argc == 4 && strcmp(argv[1], "--train") == 0;
    if (trains || argc == 2 || argc == 3)
        t = trains ? train(argv[2], &err) : tokenizer_open(argv[1], &err);
    int rc = !t ? -1 : argc > 2 ? tokenizer_write_json(t, argv[argc - 1], &err) : encode(t);
    if (rc < 0)
        (void)fprintf(stderr, "%s\n", err.text);
    tokenizer_free(t);
    return rc != 0;
}
