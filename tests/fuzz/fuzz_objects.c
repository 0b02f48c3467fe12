/* libFuzzer program: `make fuzz`. What an answer of object storage was read into is within its bounds, and one that was refused is empty. */
#include "tests/fuzz/targets.h"

#include "checkpoint/objects.h"
#include "checkpoint/objects_xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct objects_answer a;
    int rc = objects_answer_read((const char *)data, size, &a, NULL);
    fuzz_must((rc == 0) == (a.root != NULL), "an answer has a root exactly when it was read");
    fuzz_must(rc == 0 || a.n_items == 0, "a refused answer has entries");
    for (size_t i = 0; i < a.n_items; i++) {
        fuzz_must(a.items[i].part >= 0 && a.items[i].part <= OBJECTS_PARTS_MAX, "a part has an odd number");
        fuzz_must(a.items[i].bytes <= INT64_MAX, "an entry has an odd size");
        fuzz_must(!a.items[i].key || strlen(a.items[i].key) <= OBJECTS_TEXT_MAX, "a key is too long");
    }
    objects_answer_clear(&a);
    return 0;
}
