/* libFuzzer program: `make fuzz`. The first byte says which reader gets the rest. */
#include "tests/fuzz/checkpoint_targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/belay-fuzz-XXXXXX";

static void clean_up(void)
{
    char path[64];
    (void)snprintf(path, sizeof path, "%s/" MANIFEST_FILE_NAME, folder);
    (void)unlink(path); /* there may be none */
    (void)rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    if (!made) {
        made = true;
        checkpoint_must(mkdtemp(folder) != NULL && atexit(clean_up) == 0, "no folder");
    }
    if (size == 0)
        return 0;
    if (data[0] == 's')
        (void)fuzz_safetensors(data + 1, size - 1);
    else if (data[0] == 'm')
        (void)fuzz_manifest(data + 1, size - 1, folder);
    else
        (void)fuzz_config(data + 1, size - 1);
    return 0;
}
