/* notify_key: see notify_key.h. */
#include "schema/notify_key.h"

bool notify_key_ok(const char *key, size_t len)
{
    if (len == 0 || len > NOTIFY_KEY_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!((key[i] >= 'A' && key[i] <= 'Z') || key[i] == '_' || (i > 0 && key[i] >= '0' && key[i] <= '9')))
            return false;
    return true;
}
