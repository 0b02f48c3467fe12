/* Link codecs: what is encoded decodes to the same, and each hostile change of a good message is refused with a sentence
 * that names the place, leaving the struct zeroed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "schema/link.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const char order_text[] =
    "{'job':7,'attempt':2,'phase':'go','token':'0123456789abcdef0123456789abcdef','name':'shakespeare','user'"
    ":'ann',"
    "'uid':1000,'gid':1000,'cwd':'/home/ann','spec':'name: x\\n','argv':['belay-train','--job','@JOB@'],"
    "'env':{'KEY':'value','EMPTY':''},'device':'cpu','cpus':1,'memory':1073741824,'world':4,'node_rank':0,'"
    "nodes':2,"
    "'ranks':[{'rank':0,'slot':0},{'rank':1,'slot':1}],'grace_ms':30000,'checkpoint':3,"
    "'resume':['/data/b.pt','/data/a.pt'],"
    "'memory_tier':{'buddy':true},"
    "'map':[{'node':'node0','addr':'127.0.0.1','domain':'pod0/"
    "rack0','port':41234,'master_port':20123,'ranks':[0,1]},"
    "{'node':'node1','addr':'127.0.0.1','port':41235,'master_port':0,'ranks':[2,3]}],'kill':true,'reason':'"
    "because'}";

static const char report_text[] =
    "{'job':7,'attempt':2,'rev':5,'phase':'running','reason':'so','port':41234,'master_port':20123,"
    "'ranks':[{'rank':0,'slot':0,'pid':123,'start':456789,'state':'exited','code':1,'signal':11,'connected':"
    "true,"
    "'finalized':false,'started_ms':1767225600000,'ended_ms':1767225601000,'why':'killed by signal 11 "
    "(SIGSEGV)'},"
    "{'rank':1,'slot':1,'pid':0,'start':0,'state':'waiting','code':0,'signal':0,'connected':false,'finalized'"
    ":true,"
    "'started_ms':0,'ended_ms':0,'why':''}]}";

static const char inventory_text[] =
    "{'slots':2,'device':'gpu','gpus':[{'index':0,'name':'H200','uuid':'GPU-1','memory':150000000000}],'"
    "cores':2,"
    "'memory':1000000,'hostname':'host','address':'127.0.0.1','rack':'rack0','pod':'pod0','nvlink':'rack0','"
    "version':'0.1.0'}";

static const char progress_text[] =
    "{'t':'progress','job':7,'attempt':2,'rank':0,'values':{'STEP':'120','LOSS':'2.31'}}";

/* JSON written with ' for " so that it can be read in C. */
static json_t *parse(const char *text)
{
    char *copy = str_dup(text);
    for (char *c = copy; *c; c++)
        if (*c == '\'')
            *c = '"';
    json_error_t why;
    json_t *obj = json_loads(copy, JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
    if (!obj)
        fail_msg("test text is not JSON: %s: %s", why.text, copy);
    free(copy);
    return obj;
}

enum kind { ORDER, REPORT, INVENTORY, PROGRESS };
static const char *const good[] = {order_text, report_text, inventory_text, progress_text};

union any {
    struct link_order order;
    struct link_report report;
    struct link_inventory inventory;
    struct link_progress progress;
};

static int decode(enum kind kind, const json_t *obj, union any *out, struct err *err)
{
    memset(out, 0xa5, sizeof *out);
    err->text[0] = '\0';
    switch (kind) {
    case ORDER:
        return link_order_decode(obj, &out->order, err);
    case REPORT:
        return link_report_decode(obj, &out->report, err);
    case INVENTORY:
        return link_inventory_decode(obj, &out->inventory, err);
    default:
        return link_progress_decode(obj, &out->progress, err);
    }
}

static json_t *encode(enum kind kind, const union any *in)
{
    switch (kind) {
    case ORDER:
        return link_order_encode(&in->order, NULL);
    case REPORT:
        return link_report_encode(&in->report, NULL);
    case INVENTORY:
        return link_inventory_encode(&in->inventory);
    default:
        return link_progress_encode(&in->progress);
    }
}

static void clear(enum kind kind, union any *out)
{
    switch (kind) {
    case ORDER:
        link_order_clear(&out->order);
        break;
    case REPORT:
        link_report_clear(&out->report);
        break;
    case INVENTORY:
        link_inventory_clear(&out->inventory);
        break;
    default:
        link_progress_clear(&out->progress);
    }
}

static bool zeroed(enum kind kind, const union any *out)
{
    static const size_t sizes[] = {sizeof(struct link_order), sizeof(struct link_report),
                                   sizeof(struct link_inventory), sizeof(struct link_progress)};
    const unsigned char *bytes = (const unsigned char *)out;
    for (size_t i = 0; i < sizes[kind]; i++)
        if (bytes[i])
            return false;
    return true;
}

static void round_trips(void **state)
{
    (void)state;
    for (enum kind kind = ORDER; kind <= PROGRESS; kind++) {
        union any any;
        struct err err;
        json_t *obj = parse(good[kind]);
        if (decode(kind, obj, &any, &err) < 0)
            fail_msg("good message refused: %s", err.text);
        json_t *again = encode(kind, &any);
        if (!json_equal(obj, again))
            fail_msg("came back different: %s", json_dumps(again, 0));
        clear(kind, &any);
        assert_true(zeroed(kind, &any));
        clear(kind, &any); /* safe on a zeroed struct */
        json_decref(obj);
        json_decref(again);
    }
}

/* Each row: `key` of the good message gets `value` (NULL: taken away); the sentence must hold `says`. A dot steps into a
 * member, a number into an element. */
static const struct {
    enum kind kind;
    const char *key, *value, *says;
} hostile[] = {
    {ORDER, "job", NULL, "order: \"job\" is missing"},
    {ORDER, "job", "'7'", "\"job\" is not a whole number"},
    {ORDER, "job", "7.5", "\"job\" is not a whole number"},
    {ORDER, "job", "0", "\"job\" is 0"},
    {ORDER, "job", "null", "\"job\" is missing"},
    {ORDER, "attempt", "-2", "\"attempt\" is -2"},
    {ORDER, "phase", "'run'", "prepare, go or stop"},
    {ORDER, "phase", "3", "\"phase\" is not a string"},
    {ORDER, "phase", NULL, "\"phase\" is missing"},
    {ORDER, "token", "'0123'", "32 lower-case hex"},
    {ORDER, "token", "'0123456789ABCDEF0123456789ABCDEF'", "32 lower-case hex"},
    {ORDER, "token", "'../../../../../../../../../etc/pas'", "32 lower-case hex"},
    {ORDER, "name", "'a\\u0000b'", "NUL byte"},
    {ORDER, "user", NULL, "\"user\" is missing"},
    {ORDER, "cwd", "'home'", "absolute"},
    {ORDER, "cwd", "''", "absolute"},
    {ORDER, "spec", "'\\u0000'", "NUL byte"},
    {ORDER, "uid", "-1", "\"uid\" is -1"},
    {ORDER, "uid", "4294967295", "\"uid\" is 4294967295"},
    {ORDER, "gid", "4294967296", "\"gid\" is"},
    {ORDER, "device", "'tpu'", "cpu, gpu and auto"},
    {ORDER, "cpus", "0", "\"cpus\" is 0"},
    {ORDER, "memory", "-1", "\"memory\" is -1"},
    {ORDER, "world", "0", "\"world\" is 0"},
    {ORDER, "world", "9000000000000000000", "\"world\" is"},
    {ORDER, "world", "5", "has 4 ranks, \"world\" says 5"},
    {ORDER, "world", "3", "not a rank from 0 to 2"},
    {ORDER, "nodes", "5", "\"nodes\" is 5"},
    {ORDER, "nodes", "3", "has 2 nodes"},
    {ORDER, "node_rank", "2", "\"node_rank\" is 2"},
    {ORDER, "grace_ms", "-1", "\"grace_ms\" is -1"},
    {ORDER, "kill", "1", "\"kill\" is not true or false"},
    {ORDER, "checkpoint", "true", "\"checkpoint\" is not a whole number"},
    {ORDER, "resume", "'x'", "\"resume\" is not an array"},
    {ORDER, "resume", "[1]", "\"resume\" is not a string"},
    {ORDER, "resume", "['a.pt']", "a path that is not absolute"},
    {ORDER, "memory_tier", "true", "\"memory_tier\" is not an object"},
    {ORDER, "memory_tier.buddy", "'yes'", "order memory_tier: \"buddy\" is not true or false"},
    {ORDER, "map.0.domain", "7", "\"domain\" is not a string"},
    {ORDER, "argv", "[]", "0 elements"},
    {ORDER, "argv", "'sh'", "not an array"},
    {ORDER, "argv", "['sh',1]", "\"argv\" is not a string"},
    {ORDER, "argv", "['sh','a\\u0000']", "NUL byte"},
    {ORDER, "env", "[]", "\"env\" is not an object"},
    {ORDER, "env", "{'A':1}", "\"env\" is not a string"},
    {ORDER, "env", "{'A=B':'1'}", "holds '='"},
    {ORDER, "env", "{'':'1'}", "empty"},
    {ORDER, "env", "{'A':'\\u0000'}", "NUL byte"},
    {ORDER, "ranks", "[]", "0 elements"},
    {ORDER, "ranks", "[0]", "order rank: not a JSON object"},
    {ORDER, "ranks", "[{'rank':4,'slot':0}]", "\"rank\" is 4"},
    {ORDER, "ranks", "[{'rank':0}]", "\"slot\" is missing"},
    {ORDER, "ranks", "[{'rank':1,'slot':0},{'rank':1,'slot':1}]", "rank 1 twice"},
    {ORDER, "map", NULL, "go without \"map\""},
    {ORDER, "map", "[]", "go without \"map\""},
    {ORDER, "map", "[1,2]", "order map: not a JSON object"},
    {ORDER, "map.1.port", "65536", "\"port\" is 65536"},
    {ORDER, "map.1.port", "0", "\"port\" is 0"},
    {ORDER, "map.1.ranks", "[2,2]", "rank 2 is on the map twice"},
    {ORDER, "map.1.ranks", "[1,2]", "rank 1 is on the map twice"},
    {ORDER, "map.1.ranks", "[2,'3']", "not a rank"},
    {ORDER, "map.1.ranks", "[2,-1]", "not a rank"},
    {ORDER, "map.1.ranks", "[2]", "has 3 ranks"},
    {ORDER, "map.0.addr", NULL, "\"addr\" is missing"},
    {REPORT, "rev", NULL, "report: \"rev\" is missing"},
    {REPORT, "rev", "-1", "\"rev\" is -1"},
    {REPORT, "job", "1e3", "not a whole number"},
    {REPORT, "phase", "'ended'", "gone or lost"},
    {REPORT, "reason", "5", "\"reason\" is not a string"},
    {REPORT, "port", "70000", "\"port\" is 70000"},
    {REPORT, "ranks", NULL, "\"ranks\" is missing"},
    {REPORT, "ranks", "{}", "not an array"},
    {REPORT, "ranks", "[[]]", "report rank: not a JSON object"},
    {REPORT, "ranks.0.state", "'dead'", "waiting, running or exited"},
    {REPORT, "ranks.0.pid", "4294967296", "\"pid\" is"},
    {REPORT, "ranks.0.pid", "-5", "\"pid\" is -5"},
    {REPORT, "ranks.0.code", "256", "\"code\" is 256"},
    {REPORT, "ranks.0.signal", "-1", "\"signal\" is -1"},
    {REPORT, "ranks.0.connected", "'yes'", "not true or false"},
    {REPORT, "ranks.0.start", "-1", "\"start\" is -1"},
    {REPORT, "ranks.0.ended_ms", "9000000000000000000", "\"ended_ms\" is"},
    {REPORT, "ranks.1.rank", "0", "rank 0 twice"},
    {REPORT, "ranks.0.why", "'a\\u0000'", "NUL byte"},
    {INVENTORY, "slots", "0", "inventory: \"slots\" is 0"},
    {INVENTORY, "slots", "1025", "\"slots\" is 1025"},
    {INVENTORY, "device", "'tpu'", "cpu"},
    {INVENTORY, "device", "'a long word that does not fit'", "at most 7"},
    {INVENTORY, "address", NULL, "\"address\" is missing"},
    {INVENTORY, "rack", "7", "\"rack\" is not a string"},
    {INVENTORY, "nvlink", "7", "\"nvlink\" is not a string"},
    {INVENTORY, "gpus", "{}", "not an array"},
    {INVENTORY, "gpus.0.index", "-1", "inventory gpu: \"index\" is -1"},
    {INVENTORY, "memory", "-1", "\"memory\" is -1"},
    {PROGRESS, "rank", "-1", "progress: \"rank\" is -1"},
    {PROGRESS, "values", NULL, "\"values\" is missing"},
    {PROGRESS, "values", "[]", "not an object"},
    {PROGRESS, "values", "{'STEP':120}", "\"values\" is not a string"},
    {PROGRESS, "values", "{'':'1'}", "empty"},
    {PROGRESS, "values", "{'A':'\\u0000'}", "NUL byte"},
};

static json_t *step_into(json_t *at, const char *word)
{
    json_t *next =
        json_is_array(at) ? json_array_get(at, strtoul(word, NULL, 10)) : json_object_get(at, word);
    if (!next)
        fail_msg("no %s in the good message", word);
    return next;
}

static void change(json_t *obj, const char *path, json_t *value)
{
    char word[32];
    const char *dot = strchr(path, '.');
    if (dot) {
        memcpy(word, path, (size_t)(dot - path));
        word[dot - path] = '\0';
        change(step_into(obj, word), dot + 1, value);
    } else if (value) {
        assert_int_equal(json_object_set_new(obj, path, value), 0);
    } else {
        assert_int_equal(json_object_del(obj, path), 0);
    }
}

static void must_refuse(enum kind kind, const json_t *obj, const char *says)
{
    union any any;
    struct err err;
    if (decode(kind, obj, &any, &err) == 0)
        fail_msg("accepted although \"%s\" was expected", says);
    if (!strstr(err.text, says))
        fail_msg("expected \"%s\", got \"%s\"", says, err.text);
    assert_true(zeroed(kind, &any));
}

static void hostile_messages_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(hostile); i++) {
        json_t *obj = parse(good[hostile[i].kind]);
        change(obj, hostile[i].key, hostile[i].value ? parse(hostile[i].value) : NULL);
        must_refuse(hostile[i].kind, obj, hostile[i].says);
        json_decref(obj);
    }
}

static void only_objects_are_messages(void **state)
{
    (void)state;
    static const char *const texts[] = {"[]", "7", "'x'", "null", "true"};
    for (enum kind kind = ORDER; kind <= PROGRESS; kind++) {
        must_refuse(kind, NULL, "not a JSON object");
        for (size_t i = 0; i < COUNT(texts); i++) {
            json_t *obj = parse(texts[i]);
            must_refuse(kind, obj, "not a JSON object");
            json_decref(obj);
        }
    }
}

static json_t *long_string(size_t len)
{
    char *text = mem_zero(len + 1, 1);
    memset(text, 'x', len);
    json_t *value = json_string(text);
    free(text);
    return value;
}

static void too_long_is_refused(void **state)
{
    (void)state;
    static const struct {
        enum kind kind;
        const char *key;
        size_t longest; /* 0: the good one has just this length, so only one more byte is tried */
    } rows[] = {
        {ORDER, "name", 63},
        {ORDER, "user", 4096},
        {ORDER, "reason", 4096},
        {ORDER, "spec", 4u << 20},
        {REPORT, "reason", 511},
        {REPORT, "ranks.0.why", 127},
        {INVENTORY, "rack", 63},
        {INVENTORY, "nvlink", 63},
        {INVENTORY, "version", 31},
        {INVENTORY, "gpus.0.name", 63},
        {PROGRESS, "values.STEP", 4096},
        {ORDER, "map.0.node", 63},
        {ORDER, "map.0.domain", 127},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        union any any;
        struct err err;
        json_t *obj = parse(good[rows[i].kind]);
        change(obj, rows[i].key, long_string(rows[i].longest));
        assert_int_equal(decode(rows[i].kind, obj, &any, &err), 0);
        clear(rows[i].kind, &any);
        change(obj, rows[i].key, long_string(rows[i].longest + 1));
        must_refuse(rows[i].kind, obj, "bytes, at most");
        json_decref(obj);
    }
}

static void too_many_are_refused(void **state)
{
    (void)state;
    json_t *order = parse(order_text), *ranks = json_array(), *args = json_array(), *env = json_object();
    for (int i = 0; i < 5000; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "K%d", i);
        assert_int_equal(json_array_append_new(ranks, json_pack("{sisi}", "rank", i, "slot", i)), 0);
        assert_int_equal(json_array_append_new(args, json_string("x")), 0);
        assert_int_equal(json_object_set_new(env, key, json_string("x")), 0);
    }
    change(order, "env", env);
    must_refuse(ORDER, order, "5000 keys");
    change(order, "env", json_object());
    change(order, "argv", args);
    must_refuse(ORDER, order, "5000 elements");
    change(order, "argv", parse("['sh']"));
    change(order, "ranks", ranks);
    must_refuse(ORDER, order, "5000 elements");
    json_decref(order);
}

static void unknown_keys_are_ignored(void **state)
{
    (void)state;
    for (enum kind kind = ORDER; kind <= PROGRESS; kind++) {
        union any any;
        struct err err;
        json_t *obj = parse(good[kind]);
        change(obj, "from_a_newer_version", parse("{'deep':[1,2,3]}"));
        assert_int_equal(decode(kind, obj, &any, &err), 0);
        clear(kind, &any);
        json_decref(obj);
    }
}

static void optional_keys_may_be_absent(void **state)
{
    (void)state;
    union any any;
    struct err err;
    json_t *obj = parse(order_text);
    change(obj, "phase", parse("'prepare'"));
    static const char *const optional[] = {"map", "kill", "reason", "checkpoint", "env", "resume"};
    for (size_t i = 0; i < COUNT(optional); i++)
        change(obj, optional[i], NULL);
    assert_int_equal(decode(ORDER, obj, &any, &err), 0);
    assert_string_equal(any.order.reason, "");
    assert_false(any.order.kill);
    assert_int_equal(any.order.n_map, 0);
    assert_int_equal(any.order.n_env, 0);
    assert_int_equal(any.order.n_resume, 0);
    assert_null(any.order.argv[any.order.argc]);
    clear(ORDER, &any);
    json_decref(obj);
}

static void bytes_that_are_not_utf8_are_sent_as_question_marks(void **state)
{
    (void)state;
    struct link_report report = {.job = 1, .attempt = 1, .rev = 1, .phase = REPORT_GONE};
    (void)snprintf(report.reason, sizeof report.reason, "caf\xc3\xa9 cut \xe2\x82");
    json_t *obj = link_report_encode(&report, "report");
    assert_string_equal(json_string_value(json_object_get(obj, "reason")), "caf\xc3\xa9 cut ??");
    assert_string_equal(json_string_value(json_object_get(obj, "t")), "report");
    json_decref(obj);
}

static void a_copied_report_is_independent(void **state)
{
    (void)state;
    struct link_report a, b = {0};
    struct err err;
    json_t *obj = parse(report_text);
    assert_int_equal(link_report_decode(obj, &a, &err), 0);
    link_report_copy(&b, &a);
    link_report_copy(&b, &a); /* over a valid one */
    link_report_copy(&b, &b);
    a.ranks[0].pid = 9;
    assert_int_equal(b.ranks[0].pid, 123);
    assert_int_equal(b.n_ranks, 2);
    link_report_clear(&a);
    assert_string_equal(b.ranks[0].why, "killed by signal 11 (SIGSEGV)");
    link_report_clear(&b);
    json_decref(obj);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(hostile_messages_are_refused),
        cmocka_unit_test(only_objects_are_messages),
        cmocka_unit_test(too_long_is_refused),
        cmocka_unit_test(too_many_are_refused),
        cmocka_unit_test(unknown_keys_are_ignored),
        cmocka_unit_test(optional_keys_may_be_absent),
        cmocka_unit_test(bytes_that_are_not_utf8_are_sent_as_question_marks),
        cmocka_unit_test(a_copied_report_is_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
