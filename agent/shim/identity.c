/* identity: everything that needs libc's databases happens in identity_init; assume makes bare system calls, because glibc's
 * own setuid talks to the other threads, which a forked child does not have. */
#include "agent/shim/identity.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/mem.h"

#define GROUPS_MAX 4096

static void find_groups(struct identity *who)
{
    int n = 64;
    who->groups = mem_grow(NULL, (size_t)n, sizeof *who->groups);
    if (getgrouplist(who->name, who->gid, who->groups, &n) < 0 && n > 64 && n <= GROUPS_MAX) {
        who->groups = mem_grow(who->groups, (size_t)n, sizeof *who->groups);
        if (getgrouplist(who->name, who->gid, who->groups, &n) < 0)
            n = 0;
    }
    who->n_groups = n > 0 && n <= GROUPS_MAX ? (size_t)n : 0;
}

int identity_init(struct identity *who, long uid, long gid, struct err *err)
{
    *who = (struct identity){.uid = (uid_t)uid, .gid = (gid_t)gid};
    if (geteuid() != 0 && who->uid != geteuid())
        return err_set(err,
                       "the job belongs to uid %ld, but this node's agent runs as uid %d and cannot start "
                       "processes for others: "
                       "run the agent as root, or submit as the agent's user",
                       uid, (int)geteuid());
    const struct passwd *pw = getpwuid(who->uid);
    if (pw) {
        who->name = str_dup(pw->pw_name);
        who->home = str_dup(pw->pw_dir);
    }
    who->change = geteuid() == 0 && who->uid != 0;
    if (!who->change) {
        who->gid = getegid();
    } else if (who->name) {
        find_groups(who);
    } else {
        who->groups = mem_grow(NULL, 1, sizeof *who->groups);
        who->groups[0] = who->gid;
        who->n_groups = 1;
    }
    return 0;
}

void identity_clear(struct identity *who)
{
    free(who->groups);
    free(who->name);
    free(who->home);
    *who = (struct identity){0};
}

int identity_assume(const struct identity *who)
{
    if (!who->change)
        return 0;
    if (syscall(SYS_setgroups, who->n_groups, who->groups) != 0 || syscall(SYS_setgid, who->gid) != 0 ||
        syscall(SYS_setuid, who->uid) != 0)
        return -1;
    return 0;
}
