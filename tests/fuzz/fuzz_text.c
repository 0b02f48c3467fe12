/* libFuzzer program: `make fuzz`. The first byte says which reader gets the rest. */
#include "tests/fuzz/text_targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] == 'j')
        (void)fuzz_tokenizer_json(data + 1, size - 1);
    else if (data[0] == 'r')
        (void)fuzz_ranks(data + 1, size - 1);
    else if (data[0] == 'g')
        (void)fuzz_gpt2_files(data + 1, size - 1);
    else
        (void)fuzz_text(data + 1, size - 1);
    return 0;
}
