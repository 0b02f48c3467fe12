/* Keys: where they are found, and that no sentence holds a part of one. */
#include "tests/unit/scratch.h"

#include "checkpoint/objects_keys.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const char file[] = "# a comment\n"
                           "[default]\n"
                           "aws_access_key_id = ID1\r\n"
                           "aws_secret_access_key=SECRET1/+=\n"
                           "region = eu-west-1\n"
                           "\n"
                           "[ other ]\n"
                           "; another\n"
                           "aws_access_key_id=ID2\n"
                           "aws_secret_access_key\t=\tSECRET2\n"
                           "aws_session_token = TOKEN2==\n"
                           "s3 =\n"
                           "  aws_access_key_id = nested\n"
                           "[half]\n"
                           "aws_access_key_id = ID3\n"
                           "[blank]\n"
                           "aws_access_key_id = I D\n"
                           "[last]\n"
                           "aws_access_key_id = ID4\n"
                           "aws_secret_access_key = SECRET4";

static const struct {
    const char *profile, *id, *secret, *token;
} found[] = {
    {"default", "ID1", "SECRET1/+=", ""},
    {"other", "ID2", "SECRET2", "TOKEN2=="},
    {"last", "ID4", "SECRET4", ""},
};

static void profiles_are_found(void **state)
{
    (void)state;
    struct objects_keys keys;
    struct err err;
    for (size_t i = 0; i < COUNT(found); i++) {
        if (objects_keys_parse(file, "f", found[i].profile, &keys, &err) != 0)
            fail_msg("%s: %s", found[i].profile, err.text);
        assert_string_equal(keys.id, found[i].id);
        assert_string_equal(keys.secret, found[i].secret);
        assert_string_equal(keys.token, found[i].token);
    }
}

static const struct {
    const char *profile, *says;
} lacking[] = {
    {"nobody", "f has no profile [nobody]"},
    {"half", "f: the profile half lacks aws_access_key_id or aws_secret_access_key"},
    {"blank", "f: a key of the profile blank is too long, or has blanks in it"},
    {"", "f has no profile []"},
};

static void lacking_profiles_are_named(void **state)
{
    (void)state;
    struct objects_keys keys;
    struct err err;
    for (size_t i = 0; i < COUNT(lacking); i++) {
        assert_int_equal(objects_keys_parse(file, "f", lacking[i].profile, &keys, &err), -1);
        assert_string_equal(err.text, lacking[i].says);
    }
}

static int forget(void **state)
{
    (void)state;
    static const char *const names[] = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
                                        "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE"};
    for (size_t i = 0; i < COUNT(names); i++)
        unsetenv(names[i]);
    return setenv("HOME", scratch, 1);
}

static void the_environment_comes_first(void **state)
{
    (void)state;
    struct objects_keys keys;
    char *path = scratch_path(".aws");
    assert_int_equal(fs_mkdirs(path, 0700, NULL), 0);
    free(path);
    path = scratch_path(".aws/credentials");
    scratch_write(path, file, strlen(file));
    assert_int_equal(objects_keys_load(&keys, NULL), 0);
    assert_string_equal(keys.id, "ID1");
    setenv("AWS_PROFILE", "other", 1);
    assert_int_equal(objects_keys_load(&keys, NULL), 0);
    assert_string_equal(keys.token, "TOKEN2==");
    setenv("AWS_ACCESS_KEY_ID", "ID9", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SECRET9", 1);
    assert_int_equal(objects_keys_load(&keys, NULL), 0);
    assert_string_equal(keys.id, "ID9");
    assert_string_equal(keys.token, "");
    assert_int_equal(unlink(path), 0);
    free(path);
}

static void what_is_wrong_is_told_without_a_key(void **state)
{
    (void)state;
    struct objects_keys keys;
    struct err err;
    assert_int_equal(objects_keys_load(&keys, &err), -1);
    assert_non_null(strstr(err.text, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set"));
    setenv("AWS_SECRET_ACCESS_KEY", "SEC\r\nRET: x", 1);
    assert_int_equal(objects_keys_load(&keys, &err), -1);
    assert_string_equal(err.text,
                        "AWS_SECRET_ACCESS_KEY is set, but AWS_ACCESS_KEY_ID is not: set both, or neither");
    setenv("AWS_ACCESS_KEY_ID", "ID9", 1);
    assert_int_equal(objects_keys_load(&keys, &err), -1);
    assert_non_null(strstr(err.text, "has blanks in it"));
    assert_null(strstr(err.text, "RET:"));
    objects_keys_clear(&keys);
    assert_string_equal(keys.id, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiles_are_found),
        cmocka_unit_test(lacking_profiles_are_named),
        cmocka_unit_test_setup(the_environment_comes_first, forget),
        cmocka_unit_test_setup(what_is_wrong_is_told_without_a_key, forget),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
