/* cluster_dir: see cluster_dir.h. Paths are completed as text; nothing is looked up or made. */
#include "common/cluster_dir.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"

static char *absolute(const char *path, struct err *err)
{
    if (path[0] == '/')
        return str_dup(path);
    char *cwd = getcwd(NULL, 0);
    if (!cwd) {
        err_sys(err, "cannot find out the current folder to complete \"%s\"", path);
        return NULL;
    }
    char *full = str_printf("%s%s%s", cwd, strcmp(cwd, "/") == 0 ? "" : "/", path);
    free(cwd);
    return full;
}

/* A variable that is set and not empty. */
static const char *variable(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/* Only an absolute XDG_STATE_HOME counts (as its specification says). */
static char *default_dir(struct err *err)
{
    const char *state = variable("XDG_STATE_HOME"), *home = variable("HOME");
    if (geteuid() == 0)
        return str_dup("/var/lib/belay");
    if (state && state[0] == '/')
        return str_printf("%s/belay", state);
    if (home && home[0] == '/')
        return str_printf("%s/.local/state/belay", home);
    err_set(err, "there is no home folder for the cluster's directory: name one with --dir or BELAY_DIR");
    return NULL;
}

char *cluster_dir_choose(const char *flag, struct err *err)
{
    const char *set = flag ? flag : variable("BELAY_DIR");
    if (flag && !*flag) {
        err_set(err, "--dir is empty: name the cluster's directory");
        return NULL;
    }
    return set ? absolute(set, err) : default_dir(err);
}
