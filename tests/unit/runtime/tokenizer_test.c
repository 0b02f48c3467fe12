#include "tests/unit/scratch.h"

#include <jansson.h>
#include <pthread.h>
#include <sys/stat.h>

#include "runtime/text/bytelevel.h"
#include "runtime/text/tokenizer_private.h"

/* ---- a small tokenizer in each of the forms ---- */

/* Tokens behind the 256 bytes, in the printable alphabet. */
static const char *const words[] = {"he",           "ll",  "hell", "hello", "\u0120w", "\u0120wo",
                                    "\u00e3\u0122", "xyz", "xy",   "zw",    "xyzw"};
static const char *const merges[] = {"h e",           "l l",  "he ll", "hell o", "\u0120 w", "\u0120w o",
                                     "\u00e3 \u0122", "xy z", "x y",   "z w",    "xyz w"};
#define N_WORDS (sizeof words / sizeof *words)
#define END     (256 + (int)N_WORDS)

static json_t *small_vocab(void)
{
    json_t *vocab = json_object();
    for (int b = 0; b < 256; b++) {
        char byte = (char)b, *printable = bytelevel_encode(&byte, 1);
        json_object_set_new(vocab, printable, json_integer(b));
        free(printable);
    }
    for (size_t i = 0; i < N_WORDS; i++)
        json_object_set_new(vocab, words[i], json_integer(256 + (json_int_t)i));
    return vocab;
}

static json_t *small_merges(bool pairs)
{
    json_t *list = json_array();
    for (size_t i = 0; i < N_WORDS; i++) {
        const char *blank = strchr(merges[i], ' ');
        json_array_append_new(list,
                              pairs ? json_pack("[s%, s]", merges[i], (size_t)(blank - merges[i]), blank + 1)
                                    : json_string(merges[i]));
    }
    return list;
}

static json_t *small_json(bool pairs)
{
    return json_pack("{s:n, s:[{s:i, s:s, s:b}], s:{s:s, s:b}, s:{s:s, s:o, s:o}}", "normalizer",
                     "added_tokens", "id", END, "content", "<|endoftext|>", "special", 1, "pre_tokenizer",
                     "type", "ByteLevel", "add_prefix_space", 0, "model", "type", "BPE", "vocab",
                     small_vocab(), "merges", small_merges(pairs));
}

static struct tokenizer *parse(json_t *root, struct err *err)
{
    char *text = json_dumps(root, 0);
    struct tokenizer *t = tokenizer_json_parse(text, strlen(text), "small", err);
    free(text);
    return t;
}

static struct tokenizer *small(bool pairs)
{
    struct err err = {""};
    json_t *root = small_json(pairs);
    struct tokenizer *t = parse(root, &err);
    json_decref(root);
    if (!t)
        fail_msg("%s", err.text);
    return t;
}

/* merges.txt, as a text; the caller frees. */
static char *merges_text(const char *header, const char *eol)
{
    char *text = str_dup(header);
    for (size_t i = 0; i < N_WORDS; i++) {
        char *more = str_printf("%s%s%s", text, merges[i], eol);
        free(text);
        text = more;
    }
    return text;
}

static char *vocab_text(void)
{
    json_t *vocab = small_vocab();
    json_object_set_new(vocab, "<|endoftext|>", json_integer(END));
    char *text = json_dumps(vocab, 0);
    json_decref(vocab);
    return text;
}

static struct tokenizer *small_gpt2(const char *header, const char *eol)
{
    struct err err = {""};
    char *m = merges_text(header, eol), *v = vocab_text();
    struct tokenizer *t = gpt2_files_parse(m, strlen(m), v, strlen(v), "small", &err);
    free(m);
    free(v);
    if (!t)
        fail_msg("%s", err.text);
    return t;
}

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static size_t base64(const unsigned char *in, size_t len, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i += 3) {
        unsigned long bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (i + k < len ? in[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            out[n++] = i + k > len ? '=' : base64_digits[bits >> (18 - 6 * k) & 63];
    }
    return n;
}

/* A rank file: the bytes, the small words, and fillers (0xfe and three bytes) up to `ranks`. The caller frees. */
static char *ranks_text(size_t ranks, size_t *len)
{
    char *text = malloc(ranks * 32);
    *len = 0;
    for (size_t id = 0; id < ranks; id++) {
        unsigned char bytes[32] = {(unsigned char)id};
        size_t n = 1;
        if (id >= 256 && id < 256 + N_WORDS)
            n = (size_t)bytelevel_decode(words[id - 256], strlen(words[id - 256]), (char *)bytes);
        else if (id >= 256)
            n = (size_t)snprintf((char *)bytes, sizeof bytes, "\xfe%05zu", id);
        *len += base64(bytes, n, text + *len);
        *len += (size_t)snprintf(text + *len, 16, " %zu%s\n", id, id % 2 ? "" : "\r");
    }
    return text;
}

static struct tokenizer *small_ranks(size_t ranks)
{
    struct err err = {""};
    size_t len;
    char *text = ranks_text(ranks, &len);
    struct tokenizer *t = tiktoken_parse(text, len, "ranks", &err);
    free(text);
    if (!t)
        fail_msg("%s", err.text);
    return t;
}

/* ---- encoding ---- */

static void check_ids(const struct tokenizer *t, const char *text, const int32_t *want, size_t n)
{
    struct tokenizer_scratch *s = tokenizer_scratch_new(t);
    int32_t *ids = NULL;
    size_t count = 0, room = 0;
    for (int twice = 1; twice <= 2; twice++) { /* the second time out of the cache, behind what is there */
        tokenizer_encode(t, s, text, strlen(text), &ids, &count, &room);
        assert_int_equal(count, (size_t)twice * n);
        for (size_t i = 0; i < count; i++)
            if (ids[i] != want[i % n])
                fail_msg("token %zu of \"%s\" is %d, not %d", i, text, ids[i], want[i % n]);
    }
    free(ids);
    tokenizer_scratch_free(s);
}

static void check_round_trip(const struct tokenizer *t, struct tokenizer_scratch *s, const char *text,
                             size_t len)
{
    int32_t *ids = NULL;
    size_t count = 0, room = 0, at = 0, n;
    tokenizer_encode(t, s, text, len, &ids, &count, &room);
    for (size_t i = 0; i < count; i++, at += n) {
        const char *bytes = tokenizer_bytes(t, ids[i], &n);
        assert_non_null(bytes);
        assert_true(n >= 1 && n <= len - at);
        assert_memory_equal(bytes, text + at, n);
    }
    assert_int_equal(at, len);
    free(ids);
}

static const struct {
    const char *text;
    int32_t ids[16];
    size_t n;
} encoded[] = {
    {"hello", {259}, 1},
    {"hello world", {259, 261, 'r', 'l', 'd'}, 5},
    {"hehell", {256, 258}, 2},
    {"hell\no", {258, '\n', 'o'}, 3},
    {"h ello", {'h', ' ', 'e', 257, 'o'}, 5},
    {"\u3000", {262, 0x80}, 2}, /* e3 80 80; the pair is "ã" and "Ģ", the byte 80 */
    {"<|endoftext|>", {'<', '|', 'e', 'n', 'd', 'o', 'f', 't', 'e', 'x', 't', '|', '>'}, 13},
    {"", {0}, 0},
};

static void check_encoded(const struct tokenizer *t)
{
    for (size_t i = 0; i < sizeof encoded / sizeof *encoded; i++)
        if (encoded[i].n > 0)
            check_ids(t, encoded[i].text, encoded[i].ids, encoded[i].n);
}

/* Every form of one tokenizer gives the same ids, the same fingerprint and the same end of text. */
static void test_forms(void **state)
{
    (void)state;
    struct tokenizer *forms[] = {small(false), small(true), small_gpt2("#version: 0.2\n", "\n"),
                                 small_gpt2("", "\r\n")};
    for (size_t i = 0; i < 4; i++) {
        check_encoded(forms[i]);
        assert_int_equal(tokenizer_vocab(forms[i]), END + 1);
        assert_int_equal(tokenizer_end(forms[i]), END);
        assert_int_equal(tokenizer_merges(forms[i]), N_WORDS);
        assert_string_equal(tokenizer_presplit(forms[i]), "gpt2");
        assert_true(tokenizer_fingerprint(forms[i]) == tokenizer_fingerprint(forms[0]));
    }
    for (size_t i = 0; i < 4; i++)
        tokenizer_free(forms[i]);
}

/* Whose a rank file is follows from its size: the cut, the special tokens, the end of text. */
static void test_ranks(void **state)
{
    (void)state;
    static const struct {
        size_t ranks, vocab;
        int32_t end;
        const char *split;
    } rows[] = {{50256, 50257, 50256, "gpt2"},
                {100256, 100277, 100257, "llama3"},
                {128000, 128256, 128001, "llama3"}};
    for (size_t i = 0; i < 3; i++) {
        struct tokenizer *t = small_ranks(rows[i].ranks);
        check_encoded(t);
        assert_int_equal(tokenizer_vocab(t), rows[i].vocab);
        assert_int_equal(tokenizer_end(t), rows[i].end);
        assert_string_equal(tokenizer_presplit(t), rows[i].split);
        assert_true(tokenizer_whole_pieces(t));
        check_ids(t,
                  "\xfe"
                  "99",
                  (const int32_t[]){0xfe, '9', '9'}, 3);
        if (rows[i].ranks == 128000) {
            assert_int_equal(tokenizer_special(t, "<|begin_of_text|>"), 128000);
            assert_int_equal(tokenizer_special(t, "<|eot_id|>"), 128009);
            assert_int_equal(tokenizer_special(t, "<|reserved_special_token_247|>"), 128255);
        }
        tokenizer_free(t);
    }
}

/* All cuts of a token are merges: by the token, then by the parts' ids, whichever part is longer. */
static void test_order_of_cuts(void **state)
{
    (void)state;
    enum { XYZ = 263, XY = 264, ZW = 265 };
    static const int32_t want[][2] = {{XY, 'z'}, {'x', 'y'}, {'z', 'w'}, {XYZ, 'w'}, {XY, ZW}};
    struct tokenizer *t = small_ranks(50256);
    size_t n = tokenizer_merges(t);
    for (size_t i = 0; i < 5; i++) { /* fillers have no cuts: their parts are no tokens */
        int32_t left, right;
        tokenizer_merge(t, n - 5 + i, &left, &right);
        assert_int_equal(left, want[i][0]);
        assert_int_equal(right, want[i][1]);
    }
    tokenizer_free(t);
}

/* With ignore_merges a piece that is a token is that token, though no merge leads there. A special token is none of them. */
static void test_whole_pieces(void **state)
{
    (void)state;
    struct err err = {""};
    for (int whole = 0; whole < 2; whole++) {
        json_t *root = small_json(false);
        json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
        json_object_set_new(model, "ignore_merges", json_boolean(whole));
        json_object_set_new(json_object_get(model, "vocab"), "\u0120world", json_integer(500));
        json_array_append_new(added, json_pack("{s:i, s:s, s:b}", "id", 501, "content", "!!!", "special", 1));
        struct tokenizer *t = parse(root, &err);
        assert_non_null(t);
        if (whole)
            check_ids(t, "hello world", (const int32_t[]){259, 500}, 2);
        else
            check_ids(t, "hello world", encoded[1].ids, encoded[1].n);
        check_ids(t, "!!!", (const int32_t[]){'!', '!', '!'}, 3);
        assert_int_equal(tokenizer_special(t, "!!!"), 501);
        tokenizer_free(t);
        json_decref(root);
    }
}

/* The ids in a gap have no bytes; those out of range are none. */
static void test_gaps(void **state)
{
    (void)state;
    size_t len;
    struct tokenizer *t = small_ranks(100256);
    assert_non_null(tokenizer_bytes(t, 100256, &len));
    assert_int_equal(len, 0);
    assert_memory_equal(tokenizer_bytes(t, 100257, &len), "<|endoftext|>", 13);
    assert_int_equal(len, 13);
    assert_null(tokenizer_bytes(t, 100277, &len));
    assert_null(tokenizer_bytes(t, -1, &len));
    tokenizer_free(t);
}

static void test_bytes(void **state)
{
    (void)state;
    struct err err = {""};
    struct tokenizer *t = tokenizer_open("bytes", &err);
    assert_int_equal(tokenizer_vocab(t), 256);
    assert_int_equal(tokenizer_end(t), -1);
    check_ids(t, "a \xff", (const int32_t[]){'a', ' ', 0xff}, 3);
    tokenizer_free(t);
}

/* decode(encode(x)) is x for whatever bytes. */
static void test_round_trip(void **state)
{
    (void)state;
    char text[400];
    uint32_t seed = 9;
    struct tokenizer *all[] = {small(false), small_ranks(128000), tokenizer_bytes_only("bytes")};
    for (size_t k = 0; k < 3; k++) {
        struct tokenizer_scratch *s = tokenizer_scratch_new(all[k]);
        for (size_t round = 0; round < 1500; round++) {
            size_t len = round % sizeof text;
            for (size_t i = 0; i < len; i++) {
                seed = seed * 1664525 + 1013904223;
                text[i] = round % 2 ? (char)(seed >> 24) : "hello wo\n"[(seed >> 24) % 9];
            }
            check_round_trip(all[k], s, text, len);
        }
        tokenizer_scratch_free(s);
        tokenizer_free(all[k]);
    }
}

/* ---- writing ---- */

static void check_written(struct tokenizer *t)
{
    struct err err = {""};
    char *path = scratch_path("written.json"), *again_path = scratch_path("again.json");
    assert_int_equal(tokenizer_write_json(t, path, &err), 0);
    struct tokenizer *again = tokenizer_open(path, &err);
    if (!again)
        fail_msg("%s", err.text);
    assert_int_equal(tokenizer_write_json(again, again_path, &err), 0);
    char *a = scratch_read(path), *b = scratch_read(again_path);
    assert_string_equal(a, b);
    assert_true(tokenizer_fingerprint(again) == tokenizer_fingerprint(t));
    assert_int_equal(tokenizer_merges(again), tokenizer_merges(t));
    assert_int_equal(tokenizer_end(again), tokenizer_end(t));
    assert_int_equal(tokenizer_whole_pieces(again), tokenizer_whole_pieces(t));
    free(a);
    free(b);
    free(path);
    free(again_path);
    tokenizer_free(again);
    tokenizer_free(t);
}

/* What is written is read as the same tokenizer and written the same again. */
static void test_write(void **state)
{
    (void)state;
    check_written(small(false));
    check_written(small_ranks(50256));
    check_written(small_ranks(100256));
    check_written(small_ranks(128000));
    check_written(tokenizer_bytes_only("bytes"));
}

/* ---- refusals ---- */

/* Each changes one thing in a good tokenizer.json: the value at a path of keys (numbers index lists). */
static const struct refusal {
    const char *path, *value, *sentence;
} refusals[] = {
    {"normalizer", "{\"type\": \"NFC\"}", "changes text before it is cut (normalizer NFC)"},
    {"model", "null", "no model with a vocab and merges"},
    {"model/vocab", "[]", "no model with a vocab and merges"},
    {"model/type", "\"WordPiece\"", "its model is WordPiece; only BPE can be read"},
    {"model/byte_fallback", "true", "falls back to bytes"},
    {"model/dropout", "0.1", "drops merges at random"},
    {"model/end_of_word_suffix", "\"</w>\"", "has a end_of_word_suffix"},
    {"model/vocab/h", "-1", "token id -1 is not within 0..1048575"},
    {"model/vocab/h", "1048576", "token id 1048576 is not within"},
    {"model/vocab/h", "\"x\"", "the id of token \"h\" is not a whole number"},
    {"model/vocab/h", "255", "token id 255 is given twice"},
    {"model/vocab/two words", "300",
     "token 300, \"two words\", has a character that is not of the byte-level alphabet"},
    {"model/vocab/\u4e00", "300", "SentencePiece and WordPiece cannot"},
    {"model/vocab/", "300", "token 300 has 0 bytes"},
    {"model/merges/0", "\"h q\"", "merge 1: what it makes is not in the vocabulary"},
    {"model/merges/0", "\"zz q\"", "merge 1: its first part is not in the vocabulary"},
    {"model/merges/0", "\"q zz\"", "merge 1: its second part is not in the vocabulary"},
    {"model/merges/1", "\"h e\"", "merge 2, of the tokens 104 and 101, is there twice"},
    {"model/merges/1", "\"he\"", "merge 2 is not two tokens with a blank"},
    {"model/merges/1", "\" he\"", "merge 2 is not two tokens with a blank"},
    {"model/merges/1", "7", "merge 2 is neither a text nor a pair"},
    {"model/merges/1", "[\"h\", \"e\", \"l\"]", "merge 2 is neither a text nor a pair"},
    {"model/merges/1", "[\"h\", \"e e\"]", "merge 2 has a character that is not of the byte-level alphabet"},
    {"pre_tokenizer", "null", "its pre-tokenizer is not one Split, or none, followed by ByteLevel"},
    {"pre_tokenizer/type", "\"Metaspace\"", "only byte-level BPE can be read"},
    {"pre_tokenizer/add_prefix_space", "true", "puts a blank before each text"},
    {"pre_tokenizer",
     "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"behavior\": \"Isolated\", "
     "\"pattern\": {\"Regex\": "
     "\"\\\\s+\"}}, {\"type\": \"ByteLevel\", \"use_regex\": false}]}",
     "cuts text by the pattern \"\\s+\"; known are those of GPT-2 and of Llama 3"},
    {"pre_tokenizer",
     "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\"}, {\"type\": \"ByteLevel\"}]}",
     "its pre-tokenizer \"Digits\" is not known"},
    {"pre_tokenizer", "{\"type\": \"Sequence\", \"pretokenizers\": []}",
     "its pre-tokenizer is not one Split"},
    {"added_tokens/0/special", "false", "would be looked for in text"},
    {"added_tokens/0/id", "7", "token id 7 is given twice"},
    {"added_tokens/0/content", "\"he\"", "has another id in the vocabulary"},
    {"added_tokens/0/content", "\"\"", "has 0 bytes"},
    {"added_tokens/0", "{}", "added_tokens"},
    {"added_tokens", "{}", "added_tokens are no list"},
};

static void set_at(json_t *at, const char *path, json_t *value)
{
    const char *slash = strchr(path, '/');
    char *key = str_printf("%.*s", slash ? (int)(slash - path) : (int)strlen(path), path);
    size_t index = json_is_array(at) ? strtoul(key, NULL, 10) : 0;
    if (slash)
        set_at(json_is_array(at) ? json_array_get(at, index) : json_object_get(at, key), slash + 1, value);
    else if (json_is_array(at))
        json_array_set_new(at, index, value);
    else
        json_object_set_new(at, key, value);
    free(key);
}

static void test_json_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct err err = {""};
        json_t *root = small_json(false);
        set_at(root, refusals[i].path, json_loads(refusals[i].value, JSON_DECODE_ANY, NULL));
        struct tokenizer *t = parse(root, &err);
        if (t || !strstr(err.text, refusals[i].sentence))
            fail_msg("%s = %s: \"%s\" lacks \"%s\"", refusals[i].path, refusals[i].value, err.text,
                     refusals[i].sentence);
        json_decref(root);
    }
}

static void check_rank_refusal(const char *what, const char *text, size_t len, const char *sentence)
{
    struct err err = {""};
    struct tokenizer *t = tiktoken_parse(text, len, "ranks", &err);
    if (t || !strstr(err.text, sentence))
        fail_msg("%s: \"%s\" lacks \"%s\"", what, err.text, sentence);
}

static void test_rank_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
    } rows[] = {
        {"", "it has 0 ranks"},
        {"IQ== 0\nIg== 1\n", "it has 2 ranks; known are"},
        {"IQ== 0\nIg== 0\n", "line 2: token id 0 is given twice"},
        {"IQ== 1048576\n", "line 1: token id 1048576 is not within"},
        {"IQ== 10485760\n", "line 1 is not a token"},
        {"IQ== -1\n", "line 1 is not a token"},
        {"IQ==\n", "line 1 is not a token"},
        {"IQ== \n", "line 1 is not a token"},
        {" 5\n", "line 1 is not a token"},
        {"IQ= 0\n", "line 1 is not a token"},
        {"I=== 0\n", "line 1 is not a token"},
        {"I!== 0\n", "line 1 is not a token"},
        {"\n\x0e\n\x05<unk>", "perhaps SentencePiece's"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_rank_refusal(rows[i].text, rows[i].text, strlen(rows[i].text), rows[i].sentence);
    size_t len;
    char *text = ranks_text(50256, &len);
    check_rank_refusal("torn", text, len - 15, "it has 50255 ranks");
    memcpy(text, "/w", 2); /* the byte 0 becomes 255 */
    check_rank_refusal("doubled", text, len, "tokens 0 and 255 are the same");
    free(text);
}

static void test_gpt2_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *merges, *vocab, *sentence;
    } rows[] = {
        {"", "{\"a\": 0", "the vocabulary is not a JSON object of tokens and ids"},
        {"", "[1]", "it is something else"},
        {"", "{\"a\": 0, \"a\": 1}", "duplicate"},
        {"", "{\"a\": 0}", "there is no token for the byte 0x00"},
    };
    struct err err = {""};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_null(gpt2_files_parse(rows[i].merges, 0, rows[i].vocab, strlen(rows[i].vocab), "small", &err));
        assert_contains(err.text, rows[i].sentence);
    }
    char *m = merges_text("#version: 0.2\nh\n", "\n"), *v = vocab_text();
    assert_null(gpt2_files_parse(m, strlen(m), v, strlen(v), "small", &err));
    assert_contains(err.text, "merge 1 is not two tokens");
    free(m);
    free(v);
}

/* ---- files and folders ---- */

static void test_open(void **state)
{
    (void)state;
    struct err err = {""};
    char *folder = scratch_path("folder"), *merges_path = scratch_path("folder/merges.txt"),
         *vocab_path = scratch_path("folder/vocab.json"), *json_path = scratch_path("folder/tokenizer.json");
    char *m = merges_text("", "\n"), *v = vocab_text();
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_null(tokenizer_open(folder, &err));
    assert_contains(err.text, "the folder has neither tokenizer.json");
    scratch_write(merges_path, m, strlen(m));
    assert_null(tokenizer_open(folder, &err));
    assert_contains(err.text, "vocab.json");
    scratch_write(vocab_path, v, strlen(v));
    struct tokenizer *t = tokenizer_open(folder, &err);
    assert_non_null(t);
    assert_string_equal(tokenizer_name(t), folder);
    assert_int_equal(tokenizer_write_json(t, json_path, &err), 0);
    tokenizer_free(t);
    t = tokenizer_open(json_path, &err);
    assert_non_null(t);
    tokenizer_free(t);
    scratch_write(json_path, "{\n\"model\"", 9); /* tokenizer.json goes first, and is damaged */
    assert_null(tokenizer_open(folder, &err));
    assert_contains(err.text, "read as a tokenizer.json: line 2");
    assert_null(tokenizer_open("/nonexistent/x", &err));
    assert_contains(err.text, "say bytes, or name a tokenizer.json");
    free(m);
    free(v);
    free(folder);
    free(merges_path);
    free(vocab_path);
    free(json_path);
}

/* ---- threads ---- */

static const struct tokenizer *shared;
static void *encode_much(void *arg)
{
    (void)arg;
    struct tokenizer_scratch *s = tokenizer_scratch_new(shared);
    int32_t *ids = NULL;
    size_t count = 0, room = 0;
    for (int i = 0; i < 2000; i++)
        tokenizer_encode(shared, s, "hello world", 11, &ids, &count, &room);
    uintptr_t good = count == 10000 && ids[9999] == 'd' && ids[9995] == 259;
    free(ids);
    tokenizer_scratch_free(s);
    return (void *)good;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    struct tokenizer *t = small(false);
    shared = t;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_much, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *good;
        assert_int_equal(pthread_join(threads[i], &good), 0);
        assert_non_null(good);
    }
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),         cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_gaps),          cmocka_unit_test(test_order_of_cuts),
        cmocka_unit_test(test_whole_pieces),  cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_write),
        cmocka_unit_test(test_json_refusals), cmocka_unit_test(test_rank_refusals),
        cmocka_unit_test(test_gpt2_refusals), cmocka_unit_test(test_open),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
