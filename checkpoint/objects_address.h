/* objects_address: paths and queries in the one form that Signature Version 4 signs, and that is sent. Pure.
 *
 * Some versions of libcurl sign the query as it stands in the URL, others bring it into this form first: so it is in this form from the start.
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html */
#ifndef BELAY_CHECKPOINT_OBJECTS_ADDRESS_H
#define BELAY_CHECKPOINT_OBJECTS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "checkpoint/objects.h"

/* Every byte but A-Z a-z 0-9 - . _ ~ (and / where slashes stay) as %XX. The caller frees. */
char *objects_encode(const char *text, bool slashes_stay);

struct objects_param {
    const char *name, *value;
};

/* "?a=1&b=" in the order of the names, "" without parameters. The caller frees. */
char *objects_query(const struct objects_param *params, size_t count);

/* "https://bucket.s3.eu-central-1.amazonaws.com", or "ENDPOINT/bucket": what the path of a key follows. A bucket with dots in its name is part of the path
 * at AWS's, too, since no certificate covers it. The caller frees. */
char *objects_base(const struct objects_place *place);

#endif
