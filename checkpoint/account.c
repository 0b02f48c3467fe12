/* account: see account.h. */
#include "checkpoint/account.h"

#include <stdatomic.h>
#include <sys/stat.h>

static atomic_uint_fast64_t total;

bool account_counts(int fd)
{
    struct stat st;
    return fstat(fd, &st) != 0 || st.st_nlink > 0;
}

void account_read(uint64_t bytes)
{
    atomic_fetch_add(&total, bytes);
}

void account_file(const char *path, uint64_t bytes)
{
    struct stat st;
    if (stat(path, &st) != 0 || st.st_nlink > 0)
        account_read(bytes);
}

uint64_t account_total(void)
{
    return atomic_load(&total);
}
