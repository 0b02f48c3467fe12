/* directory: paths compared as text, so that the core touches no file system; two names of one directory through a symbolic link
 * are caught later, by the claim file in the directory itself. */
#include "daemon/core/directory.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* Appends one part to out (which ends without '/'), or takes one away for "..". Returns the new end. */
static char *append(char *out, char *end, const char *part, size_t len)
{
    if (len == 0 || (len == 1 && part[0] == '.'))
        return end;
    if (len == 2 && memcmp(part, "..", 2) == 0) {
        while (end > out && *--end != '/')
            ;
        return end;
    }
    *end++ = '/';
    memcpy(end, part, len);
    return end + len;
}

char *directory_absolute(const char *cwd, const char *directory)
{
    if (!directory)
        return NULL;
    char *full = directory[0] == '/' ? str_dup(directory) : str_printf("%s/%s", cwd, directory);
    char *out = mem_zero(strlen(full) + 3, 1), *end = out;
    for (const char *part = full; *part;) {
        size_t len = strcspn(part, "/");
        end = append(out, end, part, len);
        part += len + (part[len] == '/');
    }
    if (end == out)
        *end++ = '/';
    *end = '\0';
    free(full);
    return out;
}

char *submit_key(int64_t uid, const char *key)
{
    return str_printf("%lld|%s", (long long)uid, key);
}
