/* upload: checkpoints in a bucket (objects.h): PREFIX/step-00000100/rank-00000.safetensors, …, manifest.json.
 *
 * A checkpoint there is complete exactly when its manifest is: shards go first, the manifest is sent when all are there, and it is removed first. Every
 * function may be tried again after any failure, also in another process: what is there with its size and hash is not sent a second time, and a
 * large shard goes on from the part that broke off.
 *
 * One struct upload belongs to one thread; threads and processes may each have one for the same bucket, as long as each file is sent by one of them. */
#ifndef BELAY_CHECKPOINT_UPLOAD_H
#define BELAY_CHECKPOINT_UPLOAD_H

#include <stdint.h>

#include "checkpoint/manifest.h"
#include "checkpoint/objects.h"
#include "common/err.h"

/* As checkpoint.upload of a job file. */
struct upload_spec {
    const char *url;      /* s3://BUCKET/PREFIX */
    const char *endpoint; /* NULL: AWS's */
    const char *region;
    uint64_t part; /* bytes */
    int64_t keep;  /* complete checkpoints that stay; 0 = all */
};

struct upload;

/* limits NULL: the usual ones; watch is borrowed, NULL is fine (objects.h). NULL with a sentence when the url or the keys are none. Connects to nothing. */
struct upload *upload_open(const struct upload_spec *spec, const struct objects_limits *limits,
                           struct objects_watch *watch, struct err *err);
void upload_close(struct upload *u);

/* One file of the checkpoint of `step`: file->bytes bytes of fd from its beginning, whose hash is file->hash. Where other content has its name, as after
 * a rollback, the manifest there is removed first. */
enum objects_result upload_shard(struct upload *u, int64_t step, const struct manifest_file *file, int fd,
                                 struct err *err);

/* folder/manifest.json, after every file that it names: refused, with the name of the first that lacks, when one is not there with its size. Then the
 * checkpoint is complete. */
enum objects_result upload_manifest(struct upload *u, const char *folder, struct err *err);

/* A whole checkpoint folder: its shards, its manifest, then upload_retain. That the older ones could not be cleared away is logged, and no failure. */
enum objects_result upload_folder(struct upload *u, const char *folder, struct err *err);

/* For the one that uploads manifests, after that of `step`: sets aside what is later, removes what is older than the `keep` newest complete checkpoints,
 * and what uploads up to this step left: files without a manifest, and parts that nobody sees. */
enum objects_result upload_retain(struct upload *u, int64_t step, struct err *err);

/* Checkpoints later than `step` are of a branch that the run has left: their manifests become set-aside.json, so that nobody takes one for the newest.
 * They are removed when the run comes past their steps. */
enum objects_result upload_set_aside(struct upload *u, int64_t step, struct err *err);

/* Steps with a folder there, complete or not, newest first; *steps is fresh (the caller frees). */
enum objects_result upload_list(struct upload *u, int64_t **steps, size_t *count, struct err *err);
/* OBJECTS_ABSENT: it is not there, or not complete. */
enum objects_result upload_is_complete(struct upload *u, int64_t step, struct err *err);

/* Brings the checkpoint of `step` to the shelf `directory` (shelf.h; it is made when there is none): into a hidden folder, checked against its manifest in
 * full, then visible. attempt: for the hidden folder's name. With the claim of the directory held. */
enum objects_result upload_download(struct upload *u, int64_t step, const char *directory, int64_t attempt,
                                    struct err *err);

/* The newest complete one; what is damaged is skipped with a word in the log. *step: which, 0 (and OBJECTS_OK) when there is none at all. An error when the
 * server does not give it, and when all of them are damaged: then nobody should begin from nothing unasked. */
enum objects_result upload_fetch_newest(struct upload *u, const char *directory, int64_t attempt,
                                        int64_t *step, struct err *err);

#endif
