#include "data_fixture.h"

#include <sys/stat.h>

#include "runtime/data/corpus.h"
#include "runtime/data/indexfile.h"

#define COUNT 21
static const int32_t tokens[COUNT] = {5, 4,  3,  2,  1,  0,  100, 101, 7, 127, 9,
                                      8, 50, 60, 70, 80, 90, 1,   2,   3, 4};

enum format { TEXT, BARE, OWN_1, OWN_2, LLMC_GPT2, LLMC_LLAMA3, MEGATRON };
struct row {
    const char *name;
    enum format format;
    enum token_type type;
    unsigned code; /* of Megatron */
};
static const struct row rows[] = {
    {"a.txt", TEXT, TOKEN_U8, 0},          {"bare.bin", BARE, TOKEN_U16, 0},
    {"one.bin", OWN_1, TOKEN_U16, 0},      {"one-wide.bin", OWN_1, TOKEN_U32, 0},
    {"two.bin", OWN_2, TOKEN_U16, 0},      {"two-wide.bin", OWN_2, TOKEN_U32, 0},
    {"gpt2.bin", LLMC_GPT2, TOKEN_U16, 0}, {"llama3.bin", LLMC_LLAMA3, TOKEN_U32, 0},
    {"m-u8.bin", MEGATRON, TOKEN_U8, 1},   {"m-i8.bin", MEGATRON, TOKEN_I8, 2},
    {"m-i16.bin", MEGATRON, TOKEN_I16, 3}, {"m-i32.bin", MEGATRON, TOKEN_I32, 4},
    {"m-i64.bin", MEGATRON, TOKEN_I64, 5}, {"m-u16.bin", MEGATRON, TOKEN_U16, 8},
};
#define ROWS (sizeof rows / sizeof *rows)

static void make(const struct row *row, const int32_t *list, size_t n, const char *path)
{
    struct bytes b = {NULL, 0, 0};
    static const int32_t lengths[] = {1, 0, 13, 7}; /* COUNT in all */
    switch (row->format) {
    case OWN_1:
    case OWN_2:
        own_file(&b, row->format == OWN_1 ? 1 : 2, row->type, list, n, NULL);
        break;
    case LLMC_GPT2:
        llmc_file(&b, 20240520, 1, row->type, list, n);
        break;
    case LLMC_LLAMA3:
        llmc_file(&b, 20240801, 7, row->type, list, n);
        break;
    default:
        for (size_t i = 0; i < n; i++)
            put_token(&b, row->type, list[i]);
    }
    bytes_save(&b, path);
    if (row->format != MEGATRON)
        return;
    char *idx = str_printf("%.*s.idx", (int)strlen(path) - 4, path);
    megatron_index(&b, (unsigned char)row->code, token_type_bytes(row->type), lengths, 4);
    bytes_save(&b, idx);
    free(idx);
}

static void read_all(const char *path, const int32_t *expected, size_t n)
{
    struct err err = {""};
    int32_t got[256];
    struct corpus *c = corpus_open(path, &err);
    if (!c)
        fail_msg("%s", err.text);
    assert_int_equal(corpus_tokens(c), n);
    for (size_t at = 0; at < n; at++)
        for (size_t count = 0; at + count <= n; count += 1 + count / 3) {
            assert_int_equal(corpus_read(c, at, count, 128, true, got, &err), 0);
            assert_memory_equal(got, expected + at, count * sizeof *got);
        }
    corpus_close(c);
}

static void every_format_gives_the_same_tokens(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        char *path = scratch_path(rows[i].name);
        make(&rows[i], tokens, COUNT, path);
        read_all(path, tokens, COUNT);
        free(path);
    }
    char *idx = scratch_path("m-i32.idx"), *prefix = scratch_path("m-i32");
    read_all(idx, tokens, COUNT); /* Megatron's users name the pair by what its names have in common */
    read_all(prefix, tokens, COUNT);
    free(idx);
    free(prefix);
}

/* Files of unequal sizes, one of them empty, are one row of tokens, in the order of their names. */
static void shards_are_joined(void **state)
{
    (void)state;
    char *folder = scratch_path("joined"), *pattern = scratch_path("joined/part-*"),
         *notes = scratch_path("joined/notes.txt");
    assert_int_equal(mkdir(folder, 0755), 0);
    scratch_write(notes, "not a token file", 16);
    for (size_t i = 12; i-- > 0;) { /* one token, none, two, one, none, … */
        size_t from = i / 3 * 3 + (i % 3 > 0), to = i == 11 ? COUNT : i / 3 * 3 + (i % 3 == 2 ? 3 : 1);
        char *path = str_printf("%s/part-%02zu.bin", folder, i);
        make(&rows[i % 2 ? 4 : 6], tokens + from, to - from, path);
        free(path);
    }
    read_all(folder, tokens, COUNT);
    read_all(pattern, tokens, COUNT);
    free(folder);
    free(pattern);
    free(notes);
}

/* A folder that says what is in it; half-made files beside do not count. */
static void an_index_names_the_shards(void **state)
{
    (void)state;
    struct err err = {""};
    char *folder = scratch_path("prepared"), *index = scratch_path("prepared/index.json"),
         *first = scratch_path("prepared/z.bin"), *second = scratch_path("prepared/a.bin"),
         *more = scratch_path("prepared/more.bin");
    char z[] = "z.bin", a[] = "a.bin", json[] = "tokenizer.json";
    struct indexfile_shard shards[] = {{z, 13}, {a, COUNT - 13}};
    struct indexfile x = {.tokenizer = json,
                          .fingerprint = 0xfedcba9876543210,
                          .vocab = 128,
                          .end = 5,
                          .tokens = COUNT,
                          .documents = 2,
                          .text_bytes = 99,
                          .shards = shards,
                          .n_shards = 2};
    assert_int_equal(mkdir(folder, 0755), 0);
    make(&rows[4], tokens, 13, first);
    make(&rows[5], tokens + 13, COUNT - 13, second);
    scratch_write(more, "xyz", 3);
    assert_int_equal(indexfile_write(index, &x, &err), 0);
    read_all(folder, tokens, COUNT);
    read_all(index, tokens, COUNT);
    struct corpus *c = corpus_open(folder, &err);
    assert_int_equal(corpus_vocab(c), 128);
    assert_true(corpus_tokenizer(c) == 0xfedcba9876543210);
    assert_int_equal(corpus_shards(c), 2);
    corpus_close(c);
    shards[1].tokens--;
    x.tokens--;
    assert_int_equal(indexfile_write(index, &x, &err), 0);
    assert_null(corpus_open(folder, &err));
    assert_contains(err.text, "says 7");
    free(folder);
    free(index);
    free(first);
    free(second);
    free(more);
}

static const struct {
    const char *what, *text, *says;
} bad_indexes[] = {
    {"no JSON", "{", "JSON"},
    {"another format", "{\"format\":\"x\",\"version\":1}", "\"format\" must be"},
    {"another version", "{\"format\":\"belay-tokens\",\"version\":2}", "version"},
    {"a path", "{F,\"tokenizer\":\"../x\"}", "\"tokenizer\" must be the name of a file"},
    {"a short fingerprint", "{F,\"tokenizer\":\"x\",\"fingerprint\":\"12\"}", "16 hexadecimal digits"},
    {"a fingerprint below 0", "{F,\"tokenizer\":\"x\",\"fingerprint\":\"-000000000000012\"}",
     "16 hexadecimal digits"},
    {"a wide vocabulary", "{F,T,\"vocab\":2147483648}", "vocab"},
    {"an end beyond it", "{F,T,\"vocab\":10,\"end\":10}", "end"},
    {"no shards", "{F,T,V,\"shards\":[]}", "\"shards\" must name 1 to"},
    {"a shard that is a number", "{F,T,V,\"shards\":[3]}", "shard 1"},
    {"a shard elsewhere", "{F,T,V,\"shards\":[{\"file\":\"/etc/passwd\",\"tokens\":1}]}",
     "must be the name of a file"},
    {"a hidden shard", "{F,T,V,\"shards\":[{\"file\":\".x.bin\",\"tokens\":1}]}",
     "must be the name of a file"},
    {"a negative count", "{F,T,V,\"shards\":[{\"file\":\"a.bin\",\"tokens\":-1}]}", "tokens"},
    {"counts that wrap",
     "{F,T,V,\"shards\":[{\"file\":\"a.bin\",\"tokens\":576460752303423487},{\"file\":\"b.bin\",\"tokens\":"
     "576460752303423487}]}",
     "more tokens than can be"},
    {"another sum", "{F,T,V,\"shards\":[{\"file\":\"a.bin\",\"tokens\":9}]}", "but the shards have 9"},
};

/* F, T and V stand for what a good index has. */
static char *expand(const char *text)
{
    static const struct {
        const char *letter, *words;
    } parts[] = {
        {"{F", "{\"format\":\"belay-tokens\",\"version\":1"},
        {",T", ",\"tokenizer\":\"bytes\",\"fingerprint\":\"00000000000000ff\""},
        {",V", ",\"vocab\":256,\"end\":-1,\"documents\":1,\"text_bytes\":8,\"tokens\":8,\"masked\":0"}};
    char *out = str_dup(text);
    for (size_t i = 0; i < 3; i++) {
        const char *at = strstr(out, parts[i].letter);
        if (!at)
            continue;
        char *next = str_printf("%.*s%s%s", (int)(at - out), out, parts[i].words, at + 2);
        free(out);
        out = next;
    }
    return out;
}

static void bad_indexes_are_refused(void **state)
{
    (void)state;
    char *path = scratch_path("index.json");
    for (size_t i = 0; i < sizeof bad_indexes / sizeof *bad_indexes; i++) {
        struct err err = {""};
        char *text = expand(bad_indexes[i].text);
        scratch_write(path, text, strlen(text));
        struct corpus *c = corpus_open(path, &err);
        if (c)
            fail_msg("accepted: %s", bad_indexes[i].what);
        assert_contains(err.text, bad_indexes[i].says);
        assert_contains(err.text, path);
        free(text);
    }
    assert_int_equal(unlink(path), 0);
    free(path);
}

static void a_folder_must_make_sense(void **state)
{
    (void)state;
    struct err err = {""};
    char *folder = scratch_path("fineweb"), *none = scratch_path("fineweb/*_test_*.bin");
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_null(corpus_open(folder, &err));
    assert_contains(err.text, "no token files");
    assert_null(corpus_open(none, &err));
    assert_contains(err.text, "no file is named like");
    free(folder);
    free(none);
}

/* As nanoGPT, llm.c and others name them. The last ones only look like it. */
static const struct {
    const char *train, *other;
    bool refused;
} splits[] = {
    {"train.bin", "val.bin", true},
    {"tiny_shakespeare_train.bin", "tiny_shakespeare_val.bin", true},
    {"fineweb_train_000001.bin", "fineweb_val_000000.bin", true},
    {"train-00000-of-00002.bin", "validation-00000-of-00001.bin", true},
    {"c4.train.bin", "c4.test.bin", true},
    {"train0.bin", "valid0.bin", true},
    {"train.bin", "train2.bin", false},
    {"train.bin", "valley.bin", false},
    {"trains.bin", "val.bin", false},
    {"train.bin", "retrieval.bin", false},
};

static void a_folder_of_training_and_evaluation_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
        struct err err = {""};
        char *folder = scratch_path("val"); /* of a folder's name nothing follows */
        assert_int_equal(mkdir(folder, 0755), 0);
        char *train = str_printf("%s/%s", folder, splits[i].train),
             *other = str_printf("%s/%s", folder, splits[i].other),
             *only = str_printf("%s/*train*.bin", folder);
        make(&rows[6], tokens, COUNT, train);
        make(&rows[6], tokens, 5, other);
        struct corpus *c = corpus_open(folder, &err);
        if ((c == NULL) != splits[i].refused)
            fail_msg("%s and %s: %s", splits[i].train, splits[i].other, c ? "accepted" : err.text);
        if (splits[i].refused) {
            assert_contains(err.text, "for training and for evaluation");
            assert_contains(err.text, other);
            assert_contains(err.text, only);
            read_all(only, tokens, COUNT);
        }
        corpus_close(c);
        assert_int_equal(unlink(train), 0);
        assert_int_equal(unlink(other), 0);
        assert_int_equal(rmdir(folder), 0);
        free(folder);
        free(train);
        free(other);
        free(only);
    }
}

static void tokenizers_must_be_one(void **state)
{
    (void)state;
    struct err err = {""};
    char *folder = scratch_path("two");
    assert_int_equal(mkdir(folder, 0755), 0);
    for (uint64_t i = 0; i < 2; i++) {
        struct bytes b = {NULL, 0, 0};
        unsigned char header[TOKENFILE_HEADER];
        tokenfile_header(
            &(struct token_layout){
                .type = TOKEN_U16, .count = 1, .vocab = 300 + i, .end = -1, .fingerprint = 7 + i},
            header);
        put(&b, header, sizeof header);
        put_token(&b, TOKEN_U16, 1);
        char *path = str_printf("%s/%d.bin", folder, (int)i);
        bytes_save(&b, path);
        free(path);
    }
    assert_null(corpus_open(folder, &err));
    assert_contains(err.text, "another tokenizer");
    free(folder);
}

/* ---- broken files ---- */

struct patch {
    const char *what;
    enum format format;
    size_t at; /* bytes replaced there */
    const char *with;
    size_t len;
    int resize; /* bytes to add, or (negative) to cut off */
    const char *says;
};
static const struct patch patches[] = {
    {"nothing wrong", OWN_1, 0, "B", 1, 0, NULL},
    {"version 0", OWN_1, 8, "\0", 1, 0, "version 0"},
    {"version 3", OWN_2, 8, "\3", 1, 0, "version 3"},
    {"one byte a token", OWN_1, 12, "\1", 1, 0, "1 bytes a token"},
    {"more tokens", OWN_1, 16, "\x16", 1, 0, "is torn"},
    {"fewer tokens", OWN_1, 16, "\x14", 1, 0, "is torn"},
    {"all the tokens of the world", OWN_1, 16, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, 0, "is torn"},
    {"a count that wraps", OWN_1, 16, "\x15\0\0\0\0\0\0\x80", 8, 0, "is torn"},
    {"half a token", OWN_2, 0, "B", 1, 1, "is torn"},
    {"cut short", OWN_2, 0, "B", 1, -1, "is torn"},
    {"cut in the header", OWN_2, 0, "B", 1, -(2 * COUNT + 20), "is torn"},
    {"cut early in the header", OWN_2, 0, "B", 1, -(2 * COUNT + 44), "is torn"},
    {"a mask that is not there", OWN_2, 24, "\1", 1, 0, "and a mask"},
    {"a mask that is there", OWN_2, 24, "\1", 1, 3, NULL},
    {"an unknown flag", OWN_2, 24, "\2", 1, 0, "does not know"},
    {"a reserved word", OWN_2, 56, "\1", 1, 0, "does not know"},
    {"a huge vocabulary", OWN_2, 36, "\1", 1, 0, "broken header"},
    {"an end below all", OWN_2, 40, "\xfe", 1, 0, "broken header"},
    {"an end beyond", OWN_2, 32, "\x9\0\0\0\0\0\0\0\x9\0\0\0\0\0\0\0", 16, 0, "broken header"},
    {"odd", BARE, 0, "\5", 1, 1, "odd size"},
    {"llm.c version", LLMC_GPT2, 4, "\2", 1, 0, "version 2"},
    {"llm.c more tokens", LLMC_GPT2, 8, "\x16", 1, 0, "is torn"},
    {"llm.c negative", LLMC_LLAMA3, 11, "\x80", 1, 0, "-2147483627 tokens"},
    {"llm.c cut in the header", LLMC_GPT2, 0, "\x88", 1, -(2 * COUNT + 24), "is torn"},
    {"llm.c cut", LLMC_LLAMA3, 4, "\7", 1, -1, "is torn"},
    {"llm.c evaluation", LLMC_GPT2, 0, "\x8a", 1, 0, "evaluation set"},
};

/* Files with one thing wrong. */
static void broken_files_are_refused(void **state)
{
    (void)state;
    char *path = scratch_path("broken.bin");
    for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) {
        const struct patch *p = &patches[i];
        struct err err = {""};
        size_t row = 0, len;
        while (rows[row].format != p->format)
            row++;
        make(&rows[row], tokens, COUNT, path);
        char *bytes = fs_read(path, 1 << 20, &len, NULL);
        bytes = mem_grow(bytes, len + 16, 1);
        memset(bytes + len, 0, 16);
        memcpy(bytes + p->at, p->with, p->len);
        scratch_write(path, bytes, len + (size_t)p->resize);
        struct corpus *c = corpus_open(path, &err);
        if (!c != !!p->says)
            fail_msg("%s: %s", p->what, c ? "accepted" : err.text);
        if (p->says)
            assert_contains(err.text, p->says);
        corpus_close(c);
        free(bytes);
    }
    free(path);
}

static const struct patch index_patches[] = {
    {"nothing wrong", MEGATRON, 0, "M", 1, 0, NULL},
    {"magic", MEGATRON, 8, "\1", 1, 0, "MMIDIDX"},
    {"version", MEGATRON, 9, "\2", 1, 0, "version 2"},
    {"float", MEGATRON, 17, "\7", 1, 0, "floating point"},
    {"double", MEGATRON, 17, "\6", 1, 0, "floating point"},
    {"no type", MEGATRON, 17, "\0", 1, 0, "number type 0"},
    {"type 9", MEGATRON, 17, "\x9", 1, 0, "number type 9"},
    {"type 255", MEGATRON, 17, "\xff", 1, 0, "number type 255"},
    {"another width", MEGATRON, 17, "\4", 1, 0, "at byte 2 instead of 4"},
    {"sequences", MEGATRON, 18, "\5", 1, 0, "is torn"},
    {"huge sequences", MEGATRON, 18, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, 0, "is torn"},
    {"sequences that wrap", MEGATRON, 18, "\x56\x55\x55\x55\x55\x55\x55\x15", 8, 0, "is torn"},
    {"huge documents", MEGATRON, 26, "\xff\xff\xff\xff\xff\xff\xff\x1f", 8, 0, "is torn"},
    {"cut", MEGATRON, 0, "M", 1, -1, "is torn"},
    {"longer", MEGATRON, 0, "M", 1, 1, "is torn"},
    {"modes", MEGATRON, 0, "M", 1, 4, "multimodal"},
    {"only a header", MEGATRON, 0, "M", 1, -(4 * 12 + 32 + 1), "MMIDIDX"},
    {"a negative length", MEGATRON, 34 + 3, "\x80", 1, 0, "sequence 0 has -2147483647"},
    {"a long last one", MEGATRON, 34 + 12, "\x8", 1, 0, "sequence 3 has 8"},
    {"a short last one", MEGATRON, 34 + 12, "\x6", 1, 0, "holds others besides"},
    {"a gap", MEGATRON, 34 + 16 + 8, "\4", 1, 0, "sequence 1 at byte 4 instead of 2"},
    {"documents from 1", MEGATRON, 34 + 48, "\1", 1, 0, "document border 1"},
    {"documents beyond", MEGATRON, 34 + 72, "\5", 1, 0, "document border 5"},
    {"documents in disorder", MEGATRON, 34 + 64, "\1", 1, 0, "document border 1 after 2"},
    {"documents that end early", MEGATRON, 34 + 72, "\3", 1, 0, "ends its documents"},
};

static void broken_indexes_of_megatron_are_refused(void **state)
{
    (void)state;
    char *path = scratch_path("meg.bin"), *idx = scratch_path("meg.idx");
    for (size_t i = 0; i < sizeof index_patches / sizeof *index_patches; i++) {
        const struct patch *p = &index_patches[i];
        struct err err = {""};
        size_t len;
        make(&rows[ROWS - 1], tokens, COUNT, path); /* 16 bits */
        char *bytes = fs_read(idx, 1 << 20, &len, NULL);
        bytes = mem_grow(bytes, len + 16, 1);
        memset(bytes + len, 0, 16);
        memcpy(bytes + p->at, p->with, p->len);
        scratch_write(idx, bytes, len + (size_t)p->resize);
        struct corpus *c = corpus_open(path, &err);
        if (!c != !!p->says)
            fail_msg("%s: %s", p->what, c ? "accepted" : err.text);
        if (p->says) {
            assert_contains(err.text, p->says);
            assert_contains(err.text, idx);
        }
        corpus_close(c);
        free(bytes);
    }
    free(path);
    free(idx);
}

/* Tokens that no vocabulary has are found when they are read, in every width. */
static void tokens_out_of_range_are_refused(void **state)
{
    (void)state;
    static const struct {
        enum token_type type;
        unsigned code;
        int64_t value;
        int64_t vocab;
    } cases[] = {
        {TOKEN_U8, 1, 200, 200},        {TOKEN_I8, 2, -1, 300},       {TOKEN_I16, 3, -5, 128},
        {TOKEN_I32, 4, -2147483647, 9}, {TOKEN_I64, 5, 1LL << 40, 9}, {TOKEN_I64, 5, 1LL << 32, 9},
        {TOKEN_I64, 5, INT64_MIN, 9},   {TOKEN_U16, 8, 65535, 65535}, {TOKEN_I32, 4, 9, 9},
    };
    char *path = scratch_path("range.bin"), *idx = scratch_path("range.idx");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {""};
        struct bytes b = {NULL, 0, 0};
        int32_t lengths[] = {1, 1, 1}, out[3];
        for (int k = 0; k < 3; k++)
            put_token(&b, cases[i].type, k == 1 ? cases[i].value : 1);
        bytes_save(&b, path);
        megatron_index(&b, (unsigned char)cases[i].code, token_type_bytes(cases[i].type), lengths, 3);
        bytes_save(&b, idx);
        struct corpus *c = corpus_open(path, &err);
        assert_non_null(c);
        assert_int_equal(corpus_read(c, 0, 1, cases[i].vocab, false, out, &err), 0);
        assert_int_equal(corpus_read(c, 0, 3, cases[i].vocab, false, out, &err), -1);
        assert_contains(err.text, "train.model.vocab");
        corpus_close(c);
    }
    free(path);
    free(idx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_gives_the_same_tokens),
        cmocka_unit_test(shards_are_joined),
        cmocka_unit_test(an_index_names_the_shards),
        cmocka_unit_test(bad_indexes_are_refused),
        cmocka_unit_test(a_folder_must_make_sense),
        cmocka_unit_test(a_folder_of_training_and_evaluation_is_refused),
        cmocka_unit_test(tokenizers_must_be_one),
        cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(broken_indexes_of_megatron_are_refused),
        cmocka_unit_test(tokens_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
