/* Published measurements of training systems, for comparison with the prediction. docs/planning.md has the same table with errors.
 *
 * seconds: of a step. Where a source gives tokens/s, TFLOP/s or MFU, it was turned into seconds with the source's own count of
 * FLOPs. Where the source leaves a detail open, the note says what is assumed. */
#ifndef BELAY_TESTS_PLANNER_PUBLISHED_H
#define BELAY_TESTS_PLANNER_PUBLISHED_H

struct published {
    const char *name, *device, *model, *train, *parallel;
    int64_t global, micro;
    double seconds;
    bool aside; /* known to lie outside: the documentation says why */
    const char *source;
};

#define LLAMA_8B  "preset: llama3-8b"
#define LLAMA_70B "preset: llama3-70b"
/* NVIDIA's benchmark has 16 groups of keys and values */
#define LLAMA_405B_16 "preset: llama3-405b, kv_heads: 16"
#define GPT(l, h, a, v, s)                                                                                   \
    "arch: gpt2, layers: " #l ", hidden: " #h ", heads: " #a ", vocab: " #v ", context: " #s
#define NONE  "none"
#define FULL  "full"
#define VP(v) ", schedule: interleaved, virtual_stages: " #v

#define SC21       "Narayanan et al., arXiv 2104.04473, table 2"
#define KORTHI     "Korthikanti et al., arXiv 2205.05198, table 5"
#define MEGASCALE  "MegaScale, arXiv 2402.15627, table 2, Megatron-LM rows"
#define FOUNDRY    "MosaicML llm-foundry, scripts/train/benchmarking"
#define LLMC       "llm.c, scripts/run_gpt2_*.sh"
#define DGXC       "NVIDIA dgxc-benchmarking, NeMo 24.09/24.11, bf16"
#define HERD       "The Llama 3 Herd of Models, arXiv 2407.21783, table 4"
#define MODDED     "llm.c's PyTorch trainer, quoted in modded-nanogpt's README"
#define TITAN      "torchtitan, arXiv 2410.06511"
#define GPT3(a, v) GPT(96, 12288, a, v, 2048)

static const struct published published[] = {
    {"22B, 8", "a100-80g", GPT(48, 6144, 64, 51200, 2048), NONE, "tp: 8", 4, 4, 1.10, false, KORTHI},
    {"175B, 64", "a100-80g", GPT3(96, 51200), NONE, "tp: 8, pp: 8" VP(3), 64, 1, 13.75, false, KORTHI},
    {"530B, 280", "a100-80g", GPT(105, 20480, 128, 51200, 2048), NONE, "tp: 8, pp: 35" VP(3), 280, 1, 37.83,
     false, KORTHI},
    {"1T, 512", "a100-80g", GPT(128, 25600, 160, 51200, 2048), NONE, "tp: 8, pp: 64", 512, 1, 71.49, false,
     KORTHI},
    {"22B, 8, recomputed", "a100-80g", GPT(48, 6144, 64, 51200, 2048), FULL, "tp: 8", 4, 4, 1.42, false,
     KORTHI},
    {"175B, 64, recomputed", "a100-80g", GPT3(96, 51200), FULL, "tp: 8, pp: 8" VP(3), 64, 1, 18.13, false,
     KORTHI},
    {"530B, 2240", "a100-80g", GPT(105, 20480, 128, 51200, 2048), NONE, "tp: 8, pp: 35, dp: 8" VP(3), 2240, 1,
     39.15, false, KORTHI},
    {"GPT-3, 256", "a100-80g", GPT3(128, 64000), NONE, "tp: 8, pp: 8, dp: 4, zero: 1" VP(6), 768, 1, 40.0,
     false, MEGASCALE},
    {"GPT-3, 512", "a100-80g", GPT3(128, 64000), NONE, "tp: 8, pp: 8, dp: 8, zero: 1" VP(6), 768, 1, 21.2,
     false, MEGASCALE},
    {"GPT-3, 1024", "a100-80g", GPT3(128, 64000), NONE, "tp: 8, pp: 8, dp: 16, zero: 1" VP(6), 768, 1, 11.9,
     false, MEGASCALE},
    {"GPT-3, 12288", "a100-80g", GPT3(128, 64000), NONE, "tp: 8, pp: 8, dp: 192, zero: 1" VP(6), 6144, 1,
     8.57, false, MEGASCALE},
    {"GPT-3, 768", "a100-80g", GPT3(96, 51200), FULL, "tp: 8, pp: 12, dp: 8, zero: 0" VP(2), 1536, 1, 39.5,
     false, SC21},
    {"GPT-3 ZeRO-3, 384", "a100-80g", GPT3(96, 51200), FULL, "dp: 384, zero: 3", 1536, 4, 81.6, true, SC21},
    {"GPT-3 ZeRO-3, 768", "a100-80g", GPT3(96, 51200), FULL, "dp: 768, zero: 3", 1536, 2, 66.8, true, SC21},
    {"GPT-3 ZeRO-3, 1536", "a100-80g", GPT3(96, 51200), FULL, "dp: 1536, zero: 3", 1536, 1, 66.8, true, SC21},
    {"GPT-2 124M, 8", "a100-80g", "preset: gpt2-124m", NONE, "dp: 8, zero: 1", 512, 64, 0.300, false, LLMC},
    {"GPT-2 350M, 8", "a100-80g", "preset: gpt2-350m", NONE, "dp: 8, zero: 1", 512, 64, 0.820, false, LLMC},
    {"GPT-2 774M, 8", "a100-80g", "preset: gpt2-774m", NONE, "dp: 8, zero: 1", 512, 32, 1.700, false, LLMC},
    {"MPT 125M, 8", "a100-80g", GPT(12, 768, 12, 50368, 1024), NONE, "dp: 8, zero: 3", 1024, 64,
     1024 * 1024 / 8 / 156468.0, true, FOUNDRY},
    {"MPT 1B, 8", "a100-80g", GPT(24, 2048, 16, 50368, 2048), NONE, "dp: 8, zero: 3", 448, 14,
     448 * 2048 / 8 / 20513.0, false, FOUNDRY},
    {"MPT 7B, 8", "a100-80g", GPT(32, 4096, 32, 50368, 2048), NONE, "dp: 8, zero: 3", 96, 6,
     96 * 2048 / 8 / 4641.0, false, FOUNDRY},
    {"MPT 70B, 64", "a100-80g", GPT(80, 8192, 64, 50368, 2048), FULL, "dp: 64, zero: 3", 2048, 8,
     2048.0 * 2048 / 64 / 410, false, FOUNDRY},

    {"Llama 3 405B, 8192", "h100", "preset: llama3-405b", NONE, "tp: 8, pp: 16, dp: 64, zero: 1" VP(8), 2048,
     1, 12.02, false, HERD},
    {"Llama 3 405B, 16384", "h100", "preset: llama3-405b", NONE, "tp: 8, pp: 16, dp: 128, zero: 1" VP(8),
     2048, 1, 6.46, false, HERD},
    {"Llama 3 405B 128k, 16384", "h100", "preset: llama3-405b, context: 131072", NONE,
     "tp: 8, cp: 16, pp: 16, dp: 8, zero: 1" VP(8), 128, 1, 10.90, false, HERD},
    {"Llama 3.1 8B, 8", "h100", LLAMA_8B, NONE, "cp: 2, dp: 4, zero: 1", 128, 1, 12.91, false, DGXC},
    {"Llama 3.1 8B, 128", "h100", LLAMA_8B, NONE, "cp: 2, dp: 64, zero: 1", 2048, 1, 13.10, false, DGXC},
    {"Llama 3.1 70B, 64", "h100", LLAMA_70B, NONE, "tp: 4, cp: 2, pp: 4, dp: 2, zero: 1" VP(5), 128, 1, 14.72,
     false, DGXC},
    {"Llama 3.1 70B, 512", "h100", LLAMA_70B, NONE, "tp: 4, cp: 2, pp: 4, dp: 16, zero: 1" VP(5), 1024, 1,
     14.89, false, DGXC},
    {"Llama 3.1 70B, 2048", "h100", LLAMA_70B, NONE, "tp: 4, cp: 2, pp: 4, dp: 64, zero: 1" VP(5), 4096, 1,
     14.98, false, DGXC},
    {"Llama 3.1 405B, 576", "h100", LLAMA_405B_16, NONE, "tp: 8, cp: 2, pp: 9, dp: 4, zero: 1" VP(7), 252, 1,
     17.20, false, DGXC},
    {"Llama 3.1 405B, 2304", "h100", LLAMA_405B_16, NONE, "tp: 8, cp: 2, pp: 9, dp: 16, zero: 1" VP(7), 1008,
     1, 17.62, false, DGXC},
    {"GPT-3, 128", "h100", GPT3(96, 51200), NONE, "tp: 4, pp: 8, dp: 4, zero: 1" VP(12), 256, 1, 8.309, false,
     DGXC},
    {"GPT-3, 1024", "h100", GPT3(96, 51200), NONE, "tp: 4, pp: 8, dp: 32, zero: 1" VP(12), 2048, 1, 8.453,
     false, DGXC},
    {"GPT-2 1558M, 8", "h100", "preset: gpt2-1558m", NONE, "dp: 8, zero: 1", 1024, 16, 2.75, false, LLMC},
    {"GPT-2 124M, 8", "h100", "preset: gpt2-124m", NONE, "dp: 8", 512, 64, 45 * 60 / 19560.0, false, MODDED},
    {"MPT 7B, 8", "h100", GPT(32, 4096, 32, 50368, 2048), NONE, "dp: 8, zero: 3", 48, 6,
     48 * 2048 / 8 / 10643.0, true, FOUNDRY},
    {"MPT 13B, 64", "h100", GPT(40, 5120, 40, 50368, 2048), NONE, "dp: 64, zero: 3", 128, 2,
     128 * 2048 / 64 / 4800.0, true, FOUNDRY},
    {"MPT 70B, 64", "h100", GPT(80, 8192, 64, 50368, 2048), FULL, "dp: 64, zero: 3", 2048, 8,
     2048.0 * 2048 / 64 / 1039, false, FOUNDRY},
    {"Llama 3 8B, 8", "h100", LLAMA_8B, "selective", "dp: 8, zero: 3", 16, 2, 16 * 8192 / 8 / 6667.0, true,
     TITAN},
    {"Llama 3 8B, 128", "h100", LLAMA_8B, "selective", "dp: 128, zero: 3", 256, 2, 256 * 8192 / 128 / 6514.0,
     true, TITAN},
    {"Llama 3 70B, 256", "h100", LLAMA_70B, FULL, "tp: 8, dp: 32, zero: 3", 512, 16,
     512.0 * 8192 / 256 / 652.4, false, TITAN},

    {"Llama 3.1 405B, 256", "gb200", LLAMA_405B_16, NONE, "tp: 4, cp: 2, pp: 8, dp: 4, zero: 1" VP(8), 128, 1,
     9.479, false, DGXC},
};

#endif
