/* libFuzzer program: `make fuzz`. The first byte says which reader gets the rest. */
#include "tests/fuzz/data_targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] == 't')
        (void)fuzz_tokenfile(data + 1, size - 1);
    else if (data[0] == 'm')
        (void)fuzz_megatron(data + 1, size - 1);
    else
        (void)fuzz_record(data + 1, size - 1);
    return 0;
}
