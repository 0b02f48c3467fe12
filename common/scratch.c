#include "common/scratch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "common/proof.h"

#define RANDOM_CHARS 8

char *scratch_name(int64_t job, int64_t attempt)
{
    char nonce[PROOF_NONCE_SIZE];
    const char *place = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
    proof_nonce(nonce);
    return str_printf("%s/belay-%lld.%lld-%.*s", place, (long long)job, (long long)attempt, RANDOM_CHARS,
                      nonce);
}

bool scratch_is_of(const char *path, const char *attempt)
{
    char *base = str_printf("belay-%s-", attempt);
    const char *slash = strrchr(path, '/');
    bool ok = path[0] == '/' && !strstr(path, "/../") && strncmp(slash + 1, base, strlen(base)) == 0;
    free(base);
    return ok;
}
