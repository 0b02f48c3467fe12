/* The reader of job files: for each kind of mistake the place and the sentence; large and hostile files; --set. */
#include <unistd.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "tests/unit/schema/job_text.h"

static const struct {
    const char *yaml, *says;
} refused[] = {
    /* the document */
    {"", "f.yaml:1:1: the file is empty"},
    {"# only a comment\n", "f.yaml:2:1: the file is empty"},
    {"hello",
     "f.yaml:1:1: a job file is a mapping of fields that begins with  name: my-job, not a single word"},
    {"- a\n- b\n",
     "f.yaml:1:1: a job file is a mapping of fields that begins with  name: my-job, not a list"},
    {RUN "---\nname: y\n", "f.yaml:3:1: a second document begins here"},
    {"name: x\nrun:\n\tcommand: [a]\n", "f.yaml:3:1: tab in the indentation; YAML allows only spaces there"},
    {"name: x\nrun:\n  \tcommand: [a]\n", "f.yaml:3:3: tab in the indentation"},
    {"name: x\nrun:\n  command: [a]\n\tranks: 2\n", "f.yaml:4:1: tab in the indentation"},
    {"name: x\nrun: {command: [a]\n", "not YAML: "},
    {"name: x\n  run: 1\n", "f.yaml:2:6: not YAML: mapping values are not allowed in this context"},
    {"name: \"x\n",
     "not YAML: found unexpected end of stream, while scanning a quoted scalar that begins in line 1"},
    {"name: @x\n", "f.yaml:1:7: not YAML: found character that cannot start any token"},
    {"name: x\xff\n", "f.yaml:1:8: byte 0xff is not UTF-8"},
    {"name: x\nenv: {A: \xc0\xaf}\n", "f.yaml:2:10: byte 0xc0 is not UTF-8"},
    {"name: x\nenv: {A: \xed\xa0\x80}\n", "f.yaml:2:10: byte 0xed is not UTF-8"},
    {"# \xc3\xa9\xc3\xa9\x01\n", "f.yaml:1:5: control character 0x01"},
    {"name: x\x1b[31m\n", "f.yaml:1:8: control character 0x1b"},
    {"name: x\nenv: {A: \"a\\0b\"}\n", "f.yaml:2:10: this text holds a NUL byte"},

    /* anchors, aliases, tags, merge keys, odd keys, depth */
    {"name: &n x\n", "f.yaml:1:7: anchors (&name) are not allowed"},
    {"name: x\nenv: &e {A: b}\n", "f.yaml:2:6: anchors"},
    {"a: &a [x,x]\nb: [*a,*a]\n", "f.yaml:1:4: anchors"},
    {"name: *n\n", "f.yaml:1:7: aliases (*name) are not allowed"},
    {"env: {A: *_a*.bin}\n", "f.yaml:1:10: a text that begins with * or & must be in quotes (not YAML: "},
    {"name: !!str x\n", "f.yaml:1:7: tags (!name) are not allowed"},
    {"name: ! x\n", "f.yaml:1:7: tags"},
    {"name: x\nrun: !r {command: [a]}\n", "f.yaml:2:6: tags"},
    {"name: x\nrun: {command: !!seq [a]}\n", "f.yaml:2:16: tags"},
    {"name: x\nrun:\n  <<: {ranks: 2}\n  command: [a]\n", "f.yaml:3:3: merge keys (<<) are not allowed"},
    {"? [a, b]\n: c\n", "f.yaml:1:3: a key must be a word"},
    {"{{a: b}: c}\n", "f.yaml:1:2: a key must be a word"},
    {"a: [[[[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]]]\n", "f.yaml:1:19: nested more than 16 deep"},

    /* unknown and doubled keys */
    {RUN "nmae: y\n", "f.yaml:3:1: unknown field \"nmae\"; did you mean \"name\"?"},
    {RUN "lr: 3e-4\n", "f.yaml:3:1: unknown field \"lr\"; it belongs under train.optimizer"},
    {RUN "tp: 2\n", "f.yaml:3:1: unknown field \"tp\"; it belongs under parallel or under placement"},
    {RUN "parallel: {name: y}\n",
     "f.yaml:3:12: unknown field \"name\" in parallel; it belongs at the top level"},
    {RUN "parallel: {dpp: 2}\n", "f.yaml:3:12: unknown field \"dpp\" in parallel; did you mean \"dp\"?"},
    {RUN "parallel: {tensor: 2}\n",
     "f.yaml:3:12: unknown field \"tensor\" in parallel; allowed here: tp, pp, cp, dp, ep, zero, schedule"},
    {RUN "resources: {waruump: 2}\n", "did you mean \"warmup\", which belongs under train.optimizer?"},
    {RUN "placement: {tp: {inside: node}}\n",
     "f.yaml:3:18: unknown field \"inside\" in placement.tp; allowed here: within, required"},
    {RUN "\"a\\nb\": 2\n", "f.yaml:3:1: unknown field \"a\\x0ab\""},
    {RUN HUNDRED ": 2\n", "f.yaml:3:1: unknown field \"aaaa"},
    {RUN "name: y\n", "f.yaml:3:1: \"name\" is given twice; it is already in line 1, column 1"},
    {"name: x\nrun: {command: [a], ranks: 2, ranks: 2}\n",
     "f.yaml:2:31: \"ranks\" is given twice; it is already in line 2, column 21"},
    {RUN "env: {A: a, B: b, A: c}\n", "f.yaml:3:19: \"A\" is given twice"},
    {"name: x\n\"name\": x\nrun: {command: [a]}\n", "f.yaml:2:1: \"name\" is given twice"},

    /* names */
    {"name: a/b\n",
     "f.yaml:1:7: name: must be 1 to 63 letters, digits, \".\", \"_\" and \"-\", the first a letter or "
     "digit, not \"a/b\" (\"/\" is not allowed)"},
    {"name: a b\n", "not \"a b\" (a space is not allowed)"},
    {"name: ../../etc\n", "(\"/\" is not allowed)"},
    {"name: .hidden\n", "the first a letter or digit, not \".hidden\""},
    {"name: -x\n", "the first a letter or digit, not \"-x\""},
    {"name: caf\xc3\xa9\n", "(\"\xc3\xa9\" is not allowed)"},
    {"name: \"a\\nb\"\n", "not \"a\\x0ab\" (\"\\x0a\" is not allowed)"},
    {"name: \"\"\n", "f.yaml:1:7: name: must be 1 to 63"},
    {"name:\n", "f.yaml:1:6: name: must not be empty"},
    {"name: " HUNDRED HUNDRED HUNDRED "\n", "(300 bytes)"},
    {"name: [x]\n", "f.yaml:1:7: name: must be a single value, not a list"},
    {"name: {x: y}\n", "f.yaml:1:7: name: must be a single value, not a mapping"},
    {"name: on\n",
     "f.yaml:1:7: name: on without quotes is read as a boolean by many YAML tools; write \"on\" with"},
    {"name: yes\n", "f.yaml:1:7: name: yes without quotes is read as a boolean"},
    {"name: No\n", "f.yaml:1:7: name: No without quotes is read as a boolean"},
    {"name: off\n", "read as a boolean"},
    {"name: true\n", "read as a boolean"},
    {"name: n\n", "read as a boolean"},
    {"name: ~\n", "f.yaml:1:7: name: ~ without quotes is read as nothing"},
    {"name: null\n", "read as nothing"},
    {"name: 123\n", "f.yaml:1:7: name: 123 without quotes is read as a number"},
    {"name: 1.5\n", "read as a number"},
    {"name: 1e3\n", "read as a number"},
    {"name: 0x1F\n", "read as a number"},
    {"name: 1_000\n", "read as a number"},
    {"name: 12:30\n", "read as a number"},
    {"name: .inf\n", "read as a number"},
    {RUN "queue: a b\n", "f.yaml:3:8: queue: must be 1 to 63"},
    {RUN "queue: on\n", "f.yaml:3:8: queue: on without quotes"},
    {"run: {command: [a]}\n", "f.yaml:1:1: name is missing"},

    /* whole numbers */
    {RUN "priority: 1.5\n", "f.yaml:3:11: priority: must be a whole number from -1000 to 1000, not \"1.5\""},
    {RUN "priority: high\n", "must be a whole number from -1000 to 1000, not \"high\""},
    {RUN "priority: \"5\"\n", "f.yaml:3:11: priority: must not be in quotes; write \"5\" without them"},
    {RUN "priority: 1001\n", "not \"1001\""},
    {RUN "priority: -1001\n", "not \"-1001\""},
    {RUN "priority: 99999999999999999999999999\n", "not \"99999999999999999999999999\""},
    {RUN "priority: -99999999999999999999999999\n", "not \"-99999999999999999999999999\""},
    {RUN "priority: 1_0\n", "not \"1_0\" (write it without _)"},
    {RUN "priority: 0x10\n", "not \"0x10\" (write it in decimal)"},
    {RUN "priority: 010\n", "not \"010\" (write it without the leading 0)"},
    {RUN "restart: {max: -1}\n", "not \"-1\""},
    {TRAIN "checkpoint: {every: 0}\n", "from 1 to 1000000000, not \"0\""},
    {RUN "priority: 1e2\n", "must be a whole number"},
    {RUN "priority: true\n", "must be a whole number"},
    {RUN "priority:\n", "f.yaml:3:10: priority: must be a whole number"},
    {RUN "priority: [1]\n", "f.yaml:3:11: priority: must be a single value, not a list"},
    {RUN "priority: " HUNDRED HUNDRED "\n", "aaaa\xe2\x80\xa6\""},
    {RUN "parallel: {tp: 0}\n",
     "f.yaml:3:16: parallel.tp: must be a whole number from 1 to 1048576, not \"0\""},
    {RUN "parallel: {tp: -4}\n",
     "f.yaml:3:16: parallel.tp: must be a whole number from 1 to 1048576, not \"-4\""},
    {RUN "parallel: {dp: 1e9}\n", "f.yaml:3:16: parallel.dp: must be a whole number"},
    {RUN "parallel: {zero: 4}\n", "must be a whole number from 0 to 3"},
    {"name: x\nrun: {command: [a], ranks: 0}\n", "f.yaml:2:28: run.ranks: must be a whole number from 1"},
    {"name: x\nrun: {command: [a], ranks: 2000000}\n", "f.yaml:2:28: run.ranks"},
    {RUN "resources: {cpus: 0}\n", "from 1 to 1024"},
    {RUN "resources: {cpus: 1025}\n", "from 1 to 1024"},
    {RUN "placement: {spares: -1}\n", "placement.spares: must be auto or a number of nodes"},
    {RUN "checkpoint: {every: 0}\n", "checkpoint.every: must be auto or a number of steps from 1 to"},
    {RUN "checkpoint: {keep: 0}\n", "checkpoint.keep: must be a whole number from 1"},
    {RUN "restart: {max: -1}\n", "restart.max: must be a whole number from 0"},

    /* uploads */
    {RUN "checkpoint: {upload: {url: s3://bucket}}\n",
     "f.yaml:3:28: checkpoint.upload.url: only checkpoints of a train job are uploaded"},
    {TRAIN "checkpoint: {upload: {url: /mnt/x}}\n",
     "checkpoint.upload.url: must be s3://BUCKET or s3://BUCKET/PREFIX: it does not begin with s3://"},
    {TRAIN "checkpoint: {upload: {url: s3://Bucket/x}}\n",
     "a bucket has 3 to 63 small letters, digits, . and -"},
    {TRAIN "checkpoint: {upload: {url: s3://bucket//x}}\n", "a prefix has no //"},
    {TRAIN "checkpoint: {upload: {url: \"s3://bucket/a b\"}}\n", "a prefix has letters, digits and"},
    {TRAIN "checkpoint: {upload: {url: s3://bucket, endpoint: s3.example.org}}\n",
     "checkpoint.upload.endpoint: must be https://HOST or https://HOST:PORT"},
    {TRAIN "checkpoint: {upload: {url: s3://bucket, endpoint: \"https://me:key@s3.example.org\"}}\n",
     "checkpoint.upload.endpoint: must not hold a name or a key; keys come from AWS_ACCESS_KEY_ID"},
    {TRAIN "checkpoint: {upload: {url: s3://bucket, region: Europe}}\n",
     "checkpoint.upload.region: must be the name of a region, such as eu-central-1"},
    {TRAIN "checkpoint: {upload: {url: s3://bucket, part: 4MiB}}\n",
     "checkpoint.upload.part: must be a size from 5MiB to 5GiB, not \"4MiB\""},
    {TRAIN "checkpoint: {upload: {url: s3://bucket, keep: -1}}\n",
     "checkpoint.upload.keep: must be a whole number from 0"},
    {TRAIN "checkpoint: {upload: {keep: 2}}\n",
     "checkpoint.upload.keep: has no effect without checkpoint.upload.url"},

    /* other types */
    {RUN "placement: {tp: {required: yes}}\n",
     "f.yaml:3:28: placement.tp.required: must be true or false, not \"yes\""},
    {RUN "placement: {tp: {required: \"true\"}}\n", "must not be in quotes"},
    {RUN "placement: {tp: {within: nod}}\n",
     "f.yaml:3:26: placement.tp.within: must be node, nvlink, rack, pod or "
     "cluster, not \"nod\"; did you mean \"node\"?"},
    {RUN "placement: {pp: rack}\n",
     "f.yaml:3:17: placement.pp: must be a mapping of fields (key: value), not a single"},
    {RUN "resources: [gpu]\n",
     "f.yaml:3:12: resources: must be a mapping of fields (key: value), not a list"},
    {RUN "resources: {device: tpu}\n", "must be auto, cpu or gpu, not \"tpu\"; did you mean"},
    {RUN "resources: {device: quantum}\n", "must be auto, cpu or gpu, not \"quantum\""},
    {RUN "resources: {memory: 1.5GiB}\n",
     "f.yaml:3:21: resources.memory: must be a size such as 512MiB, 1GiB or 2GB"},
    {RUN "resources: {memory: -1GiB}\n", "must be a size from 0 to 1024TiB, not \"-1GiB\""},
    {RUN "resources: {memory: 99999999999TiB}\n", "must be a size from 0 to 1024TiB"},
    {RUN "resources: {memory: 1gb}\n", "must be a size such as"},
    {RUN "resources: {memory: lots}\n", "must be a size such as"},
    {RUN "limits: {time: 30}\n", "f.yaml:3:16: limits.time: must be a duration such as 500ms, 30s, 5m, 24h "
                                 "or 14d, not \"30\" (the unit is missing)"},
    {RUN "limits: {time: 1h30m}\n", "must be a duration such as"},
    {RUN "limits: {time: -5m}\n", "must be a duration from 0ms"},
    {RUN "limits: {time: 99999999d}\n", "must be a duration from 0ms to 3660d"},
    {RUN "limits: {grace: 25h}\n", "must be a duration from 0ms to 1d"},
    {RUN "restart: {window: 0s}\n", "must be a duration from 1s to 366d"},
    {RUN "checkpoint: {resume: latest}\n",
     "must be auto, never or a step from 0 to 1000000000, not \"latest\""},
    {RUN "checkpoint: {resume: -1}\n", "must be auto, never or a step"},
    {RUN "checkpoint: {directory: \"\"}\n", "checkpoint.directory: must not be empty"},
    {RUN "checkpoint: {directory: off}\n", "f.yaml:3:25: checkpoint.directory: off without quotes"},
    {TRAIN "  optimizer: {lr: fast}\n",
     "f.yaml:7:19: train.optimizer.lr: must be a number from 0 to 10, not \"fast\""},
    {TRAIN "  optimizer: {lr: -1}\n", "must be a number from 0 to 10, not \"-1\""},
    {TRAIN "  optimizer: {lr: .nan}\n", "must be a number from 0 to 10, not \".nan\""},
    {TRAIN "  optimizer: {lr: .inf}\n", "must be a number"},
    {TRAIN "  optimizer: {lr: 1e999}\n", "must be a number"},
    {TRAIN "  optimizer: {lr: nan}\n", "must be a number"},
    {TRAIN "  optimizer: {lr: 0x1p3}\n", "must be a number"},
    {TRAIN "  optimizer: {lr: \"3e-3\"}\n", "must not be in quotes"},
    {TRAIN "  optimizer: {lr: {a: b}}\n", "must be a single value, not a mapping"},
    {TRAIN "  optimizer: {schedule: cosin}\n",
     "must be cosine, linear, constant, wsd or inverse-sqrt, not \"cosin\"; did you mean \"cosine\""},
    {TRAIN "  optimizer: {betas: 0.9}\n",
     "f.yaml:7:22: train.optimizer.betas: must be a list of two numbers"},
    {TRAIN "  optimizer: {betas: [0.9]}\n", "must be a list of two numbers"},
    {TRAIN "  optimizer: {betas: [0.9, 1.0]}\n", "must be below 1, not 1.0"},
    {TRAIN "  optimizer: {betas: [0.9, [1]]}\n", "must be a single value, not a list"},
    {TRAIN "  optimizer: {betas: [-0.1, 0.9]}\n", "must be a number from 0 to 1, not \"-0.1\""},
    {TRAIN "  optimizer: {betas: [0.9, \"0.95\"]}\n", "must not be in quotes"},
    {DATA("mix: a"), "f.yaml:4:15: train.data.mix: must be a list such as [{path: a.bin, weight: 0.7}"},
    {DATA("mix: []"), "train.data.mix: must be a list such as"},
    {DATA("mix: {path: a}"), "train.data.mix: must be a list such as"},
    {DATA("mix: [a]"), "f.yaml:4:16: train.data.mix: a corpus is {path: \xe2\x80\xa6, weight: \xe2\x80\xa6}, "
                       "not a single word"},
    {DATA("mix: [{weight: 1}]"), "f.yaml:4:16: train.data.mix: a corpus needs a path"},
    {DATA("mix: [{path: a, wieght: 1}]"),
     "f.yaml:4:34: train.data.mix: unknown field \"wieght\" in a corpus; it has path and weight"},
    {DATA("mix: [{path: a, weight: 0}]"),
     "f.yaml:4:34: train.data.mix: weight: must be a number from 1e-09 to 1e+09, not \"0\""},
    {DATA("mix: [{path: a, weight: -1}]"), "not \"-1\""},
    {DATA("mix: [{path: a, weight: .nan}]"), "weight: must be a number"},
    {DATA("mix: [{path: a, weight: \"1\"}]"), "weight: must not be in quotes"},
    {DATA("mix: [{path: a, weight: [1]}]"), "weight: must be a single value, not a list"},
    {DATA("mix: [{path: [a]}]"), "path: must be a single value, not a list"},
    {DATA("mix: [{path: }]"), "path: must not be empty"},
    {DATA("mix: [{path: on}]"), "path: on without quotes is read as a boolean"},
    {DATA("mix: [{path: a, path: b}]"), "\"path\" is given twice"},
    {DATA("path: a, mix: [{path: b}]"),
     "f.yaml:4:24: train.data.mix: the job learns either path (one corpus) or mix (several)"},
    {DATA("holdout: 0.1"), "f.yaml:4:3: train.data.path is missing: one corpus"},
    {DATA("path: a, holdout: 0.6"), "train.data.holdout: must be a number from 0 to 0.5"},
    {RUN "parallel: {pp: 2, stages: 4}\n",
     "f.yaml:3:27: parallel.stages: must be a list such as [7, 8, 8, 7]"},
    {RUN "parallel: {pp: 2, stages: []}\n", "parallel.stages: must be a list"},
    {RUN "parallel: {pp: 2, stages: [1, 0]}\n",
     "f.yaml:3:31: parallel.stages: must be a whole number from 1 to 1000, not \"0\""},
    {RUN "parallel: {pp: 2, stages: [1, [1]]}\n", "parallel.stages: must be a single value, not a list"},
    {RUN "parallel: {pp: 2, stages: [1, \"1\"]}\n", "parallel.stages: must not be in quotes"},
    {RUN "parallel: {pp: 2, stages: [1, 1, 1]}\n",
     "f.yaml:3:27: parallel.stages: has 3 pieces, but pp x virtual_stages = 2 x 1 = 2; give as many"},
    {TRAIN "parallel: {stages: [3]}\n",
     "f.yaml:7:20: parallel.stages: has 3 layers together, but the model has 2"},
    {TRAIN "  guard: {action: panic}\n", "train.guard.action: must be off, stop, skip or rollback"},
    {TRAIN "  guard: {factor: 0.5}\n", "must be a number from 1 to 1e+06"},
    {TRAIN "  guard: {window: 3}\n", "must be a whole number from 4 to 10000"},
    {TRAIN "  guard: {patience: 0}\n", "must be a whole number from 1 to 1000"},
    {TRAIN "  eval: {every: 5}\n", "f.yaml:7:17: train.eval.every: every 5 steps, but there is nothing to "
                                   "evaluate on; add train.data.holdout"},
    {TRAIN "checkpoint: {keep_best: 2}\n", "checkpoint.keep_best: is 2, but no held-out loss is computed"},
    {DATA("path: a, holdout: 0.1") "  eval: {every: 5, path: val.bin}\n",
     "train.eval.path: is there, and train.data.holdout 0.1 keeps a part of the training data"},
    {TRAIN "  eval: {every: 5, path: \"\"}\n", "train.eval.path: must not be empty"},
    {TRAIN "  from: \"\"\n", "train.from: must not be empty"},
    {TRAIN "  seed: -1\n", "train.seed: must be a whole number from 0"},
    {TRAIN "  data: {path: b}\n", "f.yaml:7:3: \"data\" is given twice"},

    /* commands and variables */
    {"name: x\nrun: {command: python3 train.py --lr 3}\n",
     "f.yaml:2:16: run.command: must be a list, one word each: command: [\"python3\", \"train.py\", "
     "\"--lr\", \"3\"]"},
    {"name: x\nrun: {command: []}\n",
     "f.yaml:2:16: run.command: must be a list of the program and its arguments"},
    {"name: x\nrun: {command: }\n", "run.command: must be a list of the program"},
    {"name: x\nrun: {command: {a: b}}\n", "run.command: must be a list of the program"},
    {"name: x\nrun: {command: [\"\"]}\n", "f.yaml:2:17: run.command: the program must not be empty"},
    {"name: x\nrun: {command: [a, [b]]}\n", "f.yaml:2:20: run.command: must be a single value, not a list"},
    {"name: x\nrun: {command: [a, yes]}\n",
     "f.yaml:2:20: run.command: yes without quotes is read as a boolean"},
    {"name: x\nrun: {command: [a, 010]}\n",
     "f.yaml:2:20: run.command: 010 without quotes is read as a number"},
    {"name: x\nrun: {command: [a, ]}\n---\n", "f.yaml:3:1: a second document"},
    {"name: x\nrun: {ranks: 2}\n", "f.yaml:2:1: run.command is missing"},
    {"name: x\nrun:\n", "f.yaml:2:1: run.command is missing"},
    {RUN "env: [A]\n", "f.yaml:3:6: env: must be a mapping such as {KEY: value}, not a list"},
    {RUN "env: {A: on}\n", "f.yaml:3:10: env: A: on without quotes is read as a boolean"},
    {RUN "env: {A: }\n", "env: A: must not be empty"},
    {RUN "env: {A: [b]}\n", "env: A: must be a single value, not a list"},
    {RUN "env: {2A: b}\n",
     "f.yaml:3:7: env: the name of a variable must be 1 to 255 letters, digits and \"_\""},
    {RUN "env: {A=B: c}\n", "not \"A=B\""},
    {RUN "env: {\"\": c}\n", "the name of a variable"},
    {RUN "notify: {url: ftp://x}\n",
     "f.yaml:3:15: notify.url: must be an http:// or https:// address without spaces"},
    {RUN "notify: {url: \"http://\"}\n", "must be an http:// or https://"},
    {RUN "notify: {url: \"http://a b\"}\n", "must be an http:// or https://"},
    {RUN "notify: {url: \"http://a\\r\\nb\"}\n", "not \"http://a\\x0d\\x0ab\""},
    {RUN "notify: {url: \"http://a\", on: [failed, completd]}\n",
     "must be failed, restarted or completed, not \"completd\"; did you mean \"completed\"?"},
    {RUN "notify: {url: \"http://a\", on: failed}\n",
     "must be a list such as [failed, completed], not a single word"},
    {RUN "notify: {on: [failed]}\n", "f.yaml:3:14: notify.on: has no effect without notify.url"},

    /* train or run */
    {"name: x\n", "f.yaml:1:1: the job does nothing: add train (the bundled runtime) or run (any program)"},
    {TRAIN "run: {command: [a]}\n",
     "f.yaml:7:1: run: a job has either train (the bundled runtime) or run (any program)"},
    {"name: x\ntrain:\n", "f.yaml:2:1: train.steps is missing: optimizer steps"},
    {"name: x\ntrain: 5\n", "f.yaml:2:8: train: must be a mapping of fields"},
    {"name: x\ntrain: {steps: 1, batch: {global: 1}, data: {path: a}}\n",
     "f.yaml:2:1: train.model is missing"},

    /* models */
    {MODEL("layers: 2, hidden: 64, heads: 4, context: 32"), "f.yaml:3:3: train.model.arch is missing"},
    {MODEL("arch: gpt2, layers: 2, hidden: 64, heads: 4"), "f.yaml:3:3: train.model.context is missing"},
    {MODEL("arch: gpt2, layers: 2, hidden: 64, heads: 5, context: 32"),
     "f.yaml:3:53: train.model.heads: hidden 64 cannot be divided by 5 heads"},
    {MODEL("arch: llama, layers: 2, hidden: 60, heads: 4, context: 32"),
     "hidden / heads = 60 / 4 = 15 must be even"},
    {MODEL(LLAMA ", kv_heads: 3"), "train.model.kv_heads: 4 heads cannot be divided by 3 kv_heads"},
    {MODEL(LLAMA ", kv_heads: 8"), "train.model.kv_heads: 4 heads cannot be divided by 8 kv_heads"},
    {MODEL(GPT2 ", kv_heads: 2"), "train.model.kv_heads: gpt2 has as many as heads (4), not 2"},
    {MODEL(GPT2 ", vocab: 255"), "train.model.vocab: 255 is too small: the bytes tokenizer has 256 tokens"},
    {MODEL(GPT2 ", top_k: 2"), "train.model.top_k: 2 is more than the 0 experts there are"},
    {MODEL(LLAMA ", experts: 4, top_k: 5"), "train.model.top_k: 5 is more than the 4 experts there are"},
    {MODEL(GPT2 ", experts: 4"),
     "train.model.experts: 4 experts, but gpt2 is dense; use experts: 0, or llama"},
    {MODEL(GPT2 ", capacity: 1.25"), "train.model.capacity: 1.25, but the model has no experts"},
    {MODEL(LLAMA ", balance_loss: 0.01"), "train.model.balance_loss: 0.01, but the model has no experts"},
    {MODEL(LLAMA ", router_z_loss: 0.01"), "train.model.router_z_loss: 0.01, but the model has no router"},
    {MODEL(LLAMA ", dropout: 1"), "train.model.dropout: must be a number from 0 to 0.9"},
    {MODEL(LLAMA ", norm_eps: 0"), "train.model.norm_eps: must be a number from 1e-12 to 1"},
    {MODEL(LLAMA ", rope_theta: 0.5"), "train.model.rope_theta: must be a number from 1 to 1e+09"},
    {MODEL(LLAMA ", tied: yes"), "train.model.tied: must be true or false"},
    {MODEL("preset: mixtral-tiny, top_k: 5"), "train.model.top_k: 5 is more than the 4 experts"},
    {MODEL("preset: mixtral-tiny, experts: 0, top_k: 2"), "train.model.top_k: 2 is more than the 0 experts"},
    {MODEL("preset: gpt2"), "train.model.preset: must be gpt2-124m, gpt2-350m"},
    {MODEL("preset: gpt2-124M"), "did you mean \"gpt2-124m\"?"},
    {MODEL("preset: gpt2-124m, arch: llama"), "train.model.arch: preset gpt2-124m is a gpt2"},
    {MODEL("preset: gpt2-124m, heads: 7"), "hidden 768 cannot be divided by 7 heads"},
    {MODEL("arch: gpt3, layers: 0, hidden: 1.5, heads: -1, context: 9999999999"), "did you mean \"gpt2\"?"},

    /* mesh and batch */
    {"name: x\nrun: {command: [a], ranks: 6}\nparallel: {tp: 2, pp: 2}\n",
     "f.yaml:2:28: run.ranks: 6 ranks cannot be divided by tp x pp x cp = 2 x 2 x 1 = 4"},
    {"name: x\nrun: {command: [a], ranks: 6}\nparallel: {tp: 2, dp: 2}\n",
     "f.yaml:2:28: run.ranks: 6 ranks, but tp x pp x cp x dp = 2 x 1 x 1 x 2 = 4"},
    {RUN "parallel: {tp: 1048576, pp: 1048576, cp: 1048576, dp: 1048576}\n",
     "f.yaml:3:1: parallel: tp x pp x cp x dp = 1048576 x 1048576 x 1048576 x 1048576 is more than 1048576 "
     "ranks"},
    {"name: x\nrun: {command: [a], ranks: 4}\nparallel: {tp: 1048576, pp: 1048576, cp: 1048576}\n",
     "is more than 1048576 ranks"},
    {RUN "parallel: {tp: 1024, dp: 1025}\n",
     "f.yaml:3:1: parallel: tp x pp x cp x dp = 1024 x 1 x 1 x 1025 is more"},
    {RUN "parallel: {dp: 4, cp: 2, ep: 3}\n",
     "f.yaml:3:30: parallel.ep: 3 does not divide dp x cp = 4 x 2 = 8"},
    {TRAIN "parallel: {dp: 4, ep: 2}\n", "f.yaml:7:23: parallel.ep: 2 needs a model with experts"},
    {TRAIN "parallel: {dp: 3}\n", "f.yaml:6:19: train.batch.global: 8 sequences cannot be divided by dp = 3"},
    {"name: x\ntrain:\n  model: {" GPT2 "}\n  data: {path: a}\n  steps: 1\n  batch: {global: 8, micro: 3}\n",
     "f.yaml:6:19: train.batch.global: 8 is not a multiple of micro x dp = 3 x 1 = 3"},
    {"name: x\ntrain:\n  model: {" GPT2 "}\n  data: {path: a}\n  steps: 1\n  batch: {global: 8, micro: 4}\n"
     "parallel: {dp: 4}\n",
     "f.yaml:6:19: train.batch.global: 8 is not a multiple of micro x dp = 4 x 4 = 16"},
    {"name: x\ntrain:\n  model: {" GPT2 "}\n  data: {path: a}\n  steps: 1\n  batch: {micro: 4}\n",
     "f.yaml:6:3: train.batch.global is missing"},
    {TRAIN "  optimizer: {lr: 1e-3, min_lr: 1e-2}\n",
     "f.yaml:7:33: train.optimizer.min_lr: 0.01 is more than lr = 0.001"},
    {TRAIN "  optimizer: {warmup: 11}\n",
     "f.yaml:7:23: train.optimizer.warmup: 11 is more than the 10 steps"},
    {TRAIN "  optimizer: {schedule: wsd, warmup: 4, decay: 7}\n",
     "f.yaml:7:48: train.optimizer.decay: 7 and warmup 4 are more than the 10 steps of the job; use decay: 6 "
     "or less"},

    /* what must come out even */
    {TRAIN "parallel: {tp: 3}\n", "f.yaml:7:16: parallel.tp: 3 does not divide heads = 4; use tp: 2"},
    {MODEL(LLAMA ", kv_heads: 2") "parallel: {tp: 4}\n",
     "parallel.tp: 4 does not divide kv_heads = 2; use tp: 2"},
    {MODEL(LLAMA ", ffn: 90") "parallel: {tp: 4}\n", "parallel.tp: 4 does not divide ffn = 90; use tp: 2"},
    {MODEL(LLAMA ", ffn: 91") "parallel: {tp: 4}\n", "parallel.tp: 4 does not divide ffn = 91; use tp: 1"},
    {MODEL("preset: mixtral-tiny") "parallel: {dp: 8, ep: 8}\n",
     "f.yaml:7:23: parallel.ep: 8 does not divide experts = 4; use ep: 4"},
    {MODEL("preset: llama-tiny, context: 100") "parallel: {cp: 4}\n",
     "f.yaml:7:16: parallel.cp: context 100 cannot be divided by 2 x cp = 8 (each rank takes a chunk from "
     "either end); use "
     "context: 104 or another cp"},
    {MODEL("preset: llama-tiny, context: 33") "parallel: {tp: 2, dp: 8}\n",
     "f.yaml:7:1: parallel.sequence: micro x context / cp = 1 x 33 / 1 = 33 tokens cannot be divided by tp = "
     "2; use another "
     "context or micro, or sequence: false"},
    {TRAIN "parallel: {pp: 2, schedule: interleaved}\n",
     "f.yaml:7:16: parallel.pp: pp x virtual_stages = 2 x 2 = 4 pieces are more than the 2 layers, and each "
     "needs one"},
    {MODEL("preset: llama-tiny") "parallel: {pp: 2, dp: 8, schedule: interleaved}\n",
     "f.yaml:7:36: parallel.schedule: interleaved needs micro-batches in multiples of pp = 2, and global / "
     "(micro x dp) = "
     "8 / (1 x 8) = 1; change train.batch or use schedule: 1f1b"},
    {TRAIN "  precision: fp8\nresources: {device: cpu}\n",
     "f.yaml:7:14: train.precision: fp8 needs a GPU, and resources.device is cpu"},
    {TRAIN "  recompute: selective\nparallel: {schedule: zero-bubble}\n",
     "f.yaml:7:14: train.recompute: cannot be with schedule zero-bubble"},
};

static void mistakes_have_a_place_and_a_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++)
        must_refuse(refused[i].yaml, strlen(refused[i].yaml), refused[i].says);
}

/* ---- large and hostile files ---- */

static void nul_bytes_are_refused(void **state)
{
    (void)state;
    static const char text[] = "name: x\nrun:\0 {command: [a]}\n";
    must_refuse(text, sizeof text - 1, "f.yaml:2:5: NUL byte");
    must_refuse("\0\0\0\0", 4, "f.yaml:1:1: NUL byte");
}

static void large_files_are_refused_by_size(void **state)
{
    (void)state;
    size_t len = (size_t)10 << 20;
    char *text = mem_zero(len, 1);
    memset(text, '#', len);
    must_refuse(text, len, "f.yaml:1:1: the file has 10485760 bytes; a job file has at most 1048576");
    must_refuse(text, JOB_FILE_MAX + 1, "f.yaml:1:1: the file has 1048577 bytes");
    must_refuse(text, JOB_FILE_MAX, "the file is empty");
    free(text);
}

static void billion_laughs_is_refused_at_once(void **state)
{
    (void)state;
    char text[4096] = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n";
    for (int i = 1; i < 10; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used,
                       "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i - 1, i - 1, i - 1,
                       i - 1, i - 1, i - 1, i - 1);
    }
    must_refuse(text, strlen(text), "f.yaml:1:5: anchors");
}

static char *repeated(const char *head, const char *piece, size_t times)
{
    size_t head_len = strlen(head), len = strlen(piece);
    char *text = mem_zero(head_len + len * times + 1, 1);
    memcpy(text, head, head_len);
    for (size_t i = 0; i < times; i++)
        memcpy(text + head_len + i * len, piece, len);
    return text;
}

static void many_values_are_refused(void **state)
{
    (void)state;
    char *text = repeated("name: x\nrun:\n  command:\n", "    - a\n", 30000);
    must_refuse(text, strlen(text), "more than 20000 values");
    free(text);
    text = repeated("name: x\nrun:\n  command:\n", "    - a\n", 5000);
    must_refuse(text, strlen(text), "run.command: has 5000 words; at most 4096 are allowed");
    free(text);
    text = repeated("", "[", 100000);
    must_refuse(text, strlen(text), "f.yaml:1:17: nested more than 16 deep");
    free(text);
    text = repeated("", "{", 100000);
    must_refuse(text, strlen(text), "f.yaml:1:17: nested more than 16 deep");
    free(text);
    text = repeated("", "- ", 100000);
    must_refuse(text, strlen(text), "nested more than 16 deep");
    free(text);
}

static void many_keys_are_refused(void **state)
{
    (void)state;
    static char text[64000] = "name: x\nrun: {command: [a]}\nenv:\n";
    for (int i = 0; i < 1001; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "  K%d: v\n", i);
    }
    must_refuse(text, strlen(text), "f.yaml:1004:3: more than 1000 keys in one mapping");
}

static void long_arguments_are_refused(void **state)
{
    (void)state;
    char *text = repeated("name: x\nrun: {command: [a, b", "c", 131071);
    char *yaml = str_printf("%s]}\n", text);
    must_refuse(yaml, strlen(yaml), "has 131072 bytes, a program takes at most 131071");
    free(yaml);
    free(text);
    text = repeated("name: x\nrun: {command: [a]}\ncheckpoint: {directory: /", "c", 4096);
    yaml = str_printf("%s}\n", text);
    must_refuse(yaml, strlen(yaml), "must have at most 4096 bytes, this has 4097");
    free(yaml);
    free(text);
}

/* What is stored is the completed file, so it must not be larger than what can be read again. */
static void what_cannot_be_written_out_is_refused(void **state)
{
    (void)state;
    char *word = repeated("", "\\L", 20000), *yaml = NULL;
    char *text = str_dup("name: x\nrun:\n  command: [a");
    for (int i = 0; i < 10; i++) {
        yaml = str_printf("%s, \"%s\"", text, word);
        free(text);
        text = yaml;
    }
    yaml = str_printf("%s]\n", text);
    must_refuse(yaml, strlen(yaml), "bytes when it is written out in full");
    free(yaml);
    free(text);
    free(word);
}

/* ---- many mistakes ---- */

static void mistakes_come_in_the_order_of_the_file(void **state)
{
    (void)state;
    static struct job_diagnostics d;
    struct job_spec *spec;
    const char *yaml = "name: a b\nlr: 3\nname: y\ntrain:\n  steps: 4.5\n  model: {arch: gpt, heds: "
                       "3}\nparallel: {dp: -1}\n";
    const char *sets[] = {"queue=a b"};
    assert_int_equal(job_spec_parse(yaml, strlen(yaml), "f", sets, 1, &spec, &d), -1);
    size_t last_line = 0;
    for (size_t i = 0; i < d.count; i++) {
        if (strncmp(d.text[i], "--set", 5) == 0) {
            assert_int_equal(i, d.count - 1);
            break;
        }
        size_t line = strtoul(strchr(d.text[i], ':') + 1, NULL, 10);
        assert_true(line >= last_line);
        last_line = line;
    }
    assert_true(d.count >= 9);
}

static void only_the_first_are_kept_and_all_are_counted(void **state)
{
    (void)state;
    static struct job_diagnostics d;
    static char text[40000] = "name: x\nrun: {command: [a]}\n";
    struct job_spec *spec;
    for (int i = 0; i < 900; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "unknown%d: v\n", i);
    }
    assert_int_equal(job_spec_parse(text, strlen(text), "f", NULL, 0, &spec, &d), -1);
    assert_int_equal(d.count, 900);
    assert_non_null(strstr(d.text[0], "f:3:1: unknown field \"unknown0\""));
    assert_non_null(strstr(d.text[JOB_DIAGNOSTICS_MAX - 1], "f:22:1: unknown field \"unknown19\""));
}

static void messages_never_carry_control_characters(void **state)
{
    (void)state;
    static struct job_diagnostics d;
    struct job_spec *spec;
    const char *yaml = "name: \"\\e[31m\\x9b\"\n\"\\e]0;title\\a\": 1\nrun: {command: [a]}\n";
    const char *sets[] = {"na\x1b=\x1b[0m", "name=\xff"};
    assert_int_equal(job_spec_parse(yaml, strlen(yaml), "f\x1b\n.yaml", sets, 2, &spec, &d), -1);
    assert_true(d.count >= 3);
    for (size_t i = 0; i < d.count; i++)
        for (const char *c = d.text[i]; *c; c++)
            assert_true((unsigned char)*c >= 0x20 && *c != 0x7f && (unsigned char)*c != 0xff);
}

/* ---- --set ---- */

static void sets_replace_what_the_file_says(void **state)
{
    (void)state;
    const char *sets[] = {"name=other",
                          "train.steps=40",
                          "train.optimizer.lr=1e-2",
                          "env.A=b=c",
                          "env.N=4",
                          "parallel={dp: 2}",
                          "train.optimizer.betas=[0.8, 0.9]",
                          "checkpoint.directory=/tmp/a b"};
    struct job_spec *s = must_accept(TRAIN "env:\n", sets, COUNT(sets));
    assert_string_equal(s->name, "other");
    assert_int_equal(s->train.steps, 40);
    assert_true(s->train.optimizer.lr == 1e-2);
    assert_int_equal(s->n_env, 2);
    assert_string_equal(s->env[0].value, "b=c");
    assert_string_equal(s->env[1].value, "4");
    assert_int_equal(s->dp, 2);
    assert_true(s->train.optimizer.beta1 == 0.8);
    assert_string_equal(s->checkpoint.directory, "/tmp/a b");
    job_spec_free(s);
    const char *twice[] = {"run.ranks=2", "run.ranks=3"}; /* the last one counts */
    s = must_accept(RUN, twice, 2);
    assert_int_equal(s->ranks, 3);
    job_spec_free(s);
}

static void mistakes_in_sets_name_the_argument(void **state)
{
    (void)state;
    static const struct {
        const char *set, *says;
    } rows[] = {
        {"train.stps=4", "--set train.stps=4: unknown field \"train.stps\"; did you mean \"train.steps\"?"},
        {"steps=4", "--set steps=4: unknown field \"steps\"; it belongs under train"},
        {"train.steps=1.5", "--set train.steps=1.5: train.steps: must be a whole number"},
        {"train.steps=", "--set train.steps=: train.steps: must be a whole number"},
        {"train.steps", "--set train.steps: must be FIELD=VALUE"},
        {"=4", "--set =4: must be FIELD=VALUE"},
        {"", "--set : must be FIELD=VALUE"},
        {"train=4", "--set train=4: train: must be a mapping"},
        {"name=on", "--set name=on: name: on without quotes"},
        {"name=[a", "--set name=[a: not YAML"},
        {"name=*a", "--set name=*a: aliases"},
        {"name=*a", "--set name=*a: put the value in quotes within those of the shell: --set 'name=\"*a\"'"},
        {"train.data.path=*_train_*.bin", "a text that begins with * or & must be in quotes (not YAML: "},
        {"train.data.path=*_train_*.bin", "--set 'train.data.path=\"*_train_*.bin\"'"},
        {"train.data.path=&*.bin", "a text that begins with * or & must be in quotes (not YAML: "},
        {"name=&a b", "--set name=&a b: anchors"},
        {"name=a\nb: c", "--set name=a\\x0ab: c: "},
        {"name.x=4", "--set name.x=4: unknown field \"name.x\""},
        {"..=4", "--set ..=4: unknown field \"..\""},
        {"train.=4", "--set train.=4: unknown field"},
        {"env.A.B=4", "--set env.A.B=4: env: the name of a variable"},
        {"env.=4", "--set env.=4: env: the name of a variable"},
        {"parallel.dp=3", "f.yaml:6:19: train.batch.global: 8 sequences cannot be divided by dp = 3"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        static struct job_diagnostics d;
        struct job_spec *spec = NULL;
        int rc = job_spec_parse(TRAIN, strlen(TRAIN), "f.yaml", &rows[i].set, 1, &spec, &d);
        if (rc == 0 || !any_says(&d, rows[i].says))
            fail_msg("expected \"%s\", got \"%s\"", rows[i].says, rc == 0 ? "nothing" : d.text[0]);
    }
}

static void a_set_does_not_step_through_what_is_no_section(void **state)
{
    (void)state;
    static struct job_diagnostics d;
    struct job_spec *spec = NULL;
    const char *set = "parallel.dp=2", *yaml = RUN "parallel: 5\n";
    assert_int_equal(job_spec_parse(yaml, strlen(yaml), "f", &set, 1, &spec, &d), -1);
    assert_true(any_says(&d, "--set parallel.dp=2: what the file has there is not a mapping of fields"));
    assert_true(any_says(&d, "f:3:11: parallel: must be a mapping"));
}

/* ---- files ---- */

static void files_are_loaded_or_refused(void **state)
{
    (void)state;
    static struct job_diagnostics d;
    char dir[] = "/tmp/belay-job-test-XXXXXX";
    struct job_spec *spec = NULL;
    assert_non_null(mkdtemp(dir));
    char *path = str_printf("%s/job.yaml", dir);
    assert_int_equal(job_spec_load(path, NULL, 0, &spec, &d), -1);
    assert_true(any_says(&d, "job.yaml:1:1: cannot be opened: No such file"));
    assert_int_equal(job_spec_load(dir, NULL, 0, &spec, &d), -1);
    assert_true(any_says(&d, ":1:1: is a folder"));
    assert_int_equal(fs_write_durable(path, RUN, strlen(RUN), 0644, NULL), 0);
    assert_int_equal(job_spec_load(path, NULL, 0, &spec, &d), 0);
    job_spec_free(spec);
    assert_int_equal(truncate(path, 10 << 20), 0);
    assert_int_equal(job_spec_load(path, NULL, 0, &spec, &d), -1);
    assert_true(
        any_says(&d, "job.yaml:1:1: the file has 10485760 bytes; a job file has at most 1048576 (1 MiB)"));
    assert_null(spec);
    assert_int_equal(fs_remove_tree(dir, NULL), 0);
    free(path);
}

/* A pipe has no size, so what comes out of it is counted. */
static void an_endless_pipe_is_refused(void **state)
{
    (void)state;
    static struct job_diagnostics d;
    struct job_spec *spec = NULL;
    assert_int_equal(job_spec_load("/dev/zero", NULL, 0, &spec, &d), -1);
    assert_true(any_says(&d, "/dev/zero:1:1: the file has 1048577 bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_have_a_place_and_a_sentence),
        cmocka_unit_test(nul_bytes_are_refused),
        cmocka_unit_test(large_files_are_refused_by_size),
        cmocka_unit_test(billion_laughs_is_refused_at_once),
        cmocka_unit_test(many_values_are_refused),
        cmocka_unit_test(many_keys_are_refused),
        cmocka_unit_test(long_arguments_are_refused),
        cmocka_unit_test(what_cannot_be_written_out_is_refused),
        cmocka_unit_test(mistakes_come_in_the_order_of_the_file),
        cmocka_unit_test(only_the_first_are_kept_and_all_are_counted),
        cmocka_unit_test(messages_never_carry_control_characters),
        cmocka_unit_test(sets_replace_what_the_file_says),
        cmocka_unit_test(mistakes_in_sets_name_the_argument),
        cmocka_unit_test(a_set_does_not_step_through_what_is_no_section),
        cmocka_unit_test(files_are_loaded_or_refused),
        cmocka_unit_test(an_endless_pipe_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
