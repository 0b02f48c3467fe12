/* secret: made once, then only read. Always holds: what is returned has SECRET_HEX hex digits and was private when read. */
#include "daemon/secret.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "common/proof.h"

#define SECRET_HEX 64
#define FILE_MAX   1024

static int make(const char *path, struct err *err)
{
    char half[2][PROOF_NONCE_SIZE];
    proof_nonce(half[0]);
    proof_nonce(half[1]);
    char *text = str_printf("%s%s", half[0], half[1]);
    int rc = fs_write_durable(path, text, strlen(text), 0600, err);
    free(text);
    return rc;
}

static int check_mode(const char *path, struct err *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return err_sys(err, "cannot look at %s", path);
    if (st.st_mode & 077)
        return err_set(
            err,
            "%s has mode %04o, so others can read the cluster's secret: chmod 600 it, and replace it if "
            "somebody may have",
            path, (unsigned)(st.st_mode & 07777));
    if (st.st_uid != geteuid())
        return err_set(err, "%s belongs to uid %u, not to uid %u that runs belayd: chown it", path,
                       (unsigned)st.st_uid, (unsigned)geteuid());
    return 0;
}

static char *read_secret(const char *path, struct err *err)
{
    char *text = fs_read(path, FILE_MAX, NULL, err);
    if (!text)
        return NULL;
    text[strcspn(text, " \t\r\n")] = '\0';
    if (strlen(text) >= SECRET_HEX && strspn(text, "0123456789abcdefABCDEF") == strlen(text))
        return text;
    err_set(err,
            "%s does not hold a secret of %d hex digits: remove it (agents need the new one) or restore it",
            path, SECRET_HEX);
    free(text);
    return NULL;
}

char *secret_load(const char *path, struct err *err)
{
    if (access(path, F_OK) != 0 && make(path, err) != 0)
        return NULL;
    return check_mode(path, err) == 0 ? read_secret(path, err) : NULL;
}
