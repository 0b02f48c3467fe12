/* cluster_links: the links that hold when no cluster file says otherwise (docs/cluster-file.md). */
#include <string.h>

#include "schema/cluster.h"

void cluster_links_default(struct cluster_link links[DOMAIN_COUNT])
{
    /* NVLink 4: 900 GB/s in both directions together; 400 Gb/s NICs beyond it, one a device. */
    static const struct cluster_link defaults[DOMAIN_COUNT] = {
        [DOMAIN_NODE] = {450e9, 5e-6}, [DOMAIN_NVLINK] = {450e9, 5e-6}, [DOMAIN_RACK] = {50e9, 2e-6},
        [DOMAIN_POD] = {50e9, 3e-6},   [DOMAIN_CLUSTER] = {50e9, 5e-6},
    };
    memcpy(links, defaults, sizeof(defaults));
}
