/* submit_storm DIR CONNECTIONS SECONDS SEED [ACKED [PAUSE_US]]: many clients submit jobs as fast as they are acknowledged.
 *
 * Each submit has its own idempotency key; when the connection breaks or belayd answers 503 the same key is sent again until it is
 * acknowledged (201). With ACKED each acknowledged "key id" is appended to that file. PAUSE_US: rest between submits.
 * SECONDS 0: until SIGTERM. At the end the submits under way are brought to their acknowledgement (at most 10 s), then one line
 * tells the count, the rate and the latencies. Exit 1 when one was never acknowledged or was refused. */
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/clock.h"
#include "common/mem.h"
#include "tests/programs/http_unix.h"

#define LATENCIES_MAX 1000000
#define LAST_TRIES_S  10

static char *socket_path;
static const char *seed;
static FILE *acked_file;
static useconds_t pause_us;
static atomic_bool stopping, failed;
static atomic_size_t n_acked, n_retries;
static float *latency_ms; /* of the first LATENCIES_MAX */
static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;

static void on_signal(int sig)
{
    (void)sig;
    atomic_store(&stopping, true);
}

static char *make_request(const char *key)
{
    char *spec = str_printf("name: %s\nrun:\n  command: [sleep, '5']\n  ranks: 2\n", key);
    json_t *obj =
        json_pack("{s:s,s:s,s:s,s:s}", "spec", spec, "cwd", "/tmp", "file", "storm.yaml", "key", key);
    char *text = json_dumps(obj, JSON_COMPACT);
    json_decref(obj);
    free(spec);
    return text;
}

static void acknowledge(const char *key, const char *reply)
{
    json_t *obj = json_loads(reply, 0, NULL);
    long long id = json_integer_value(json_object_get(obj, "id"));
    if (id <= 0) {
        fprintf(stderr, "%s: 201 without an id: %s\n", key, reply);
        atomic_store(&failed, true);
    }
    if (acked_file) {
        pthread_mutex_lock(&file_lock);
        fprintf(acked_file, "%s %lld\n", key, id);
        fflush(acked_file);
        pthread_mutex_unlock(&file_lock);
    }
    json_decref(obj);
}

/* One try. The status, -1 when the connection broke (*fd is then -1). */
static int try_once(int *fd, const char *key, const char *request)
{
    char *reply = NULL;
    if (*fd < 0)
        *fd = unixsock_connect(socket_path, 0, NULL);
    int status = *fd < 0 ? -1 : http_unix(*fd, "POST", "/v1/jobs", request, &reply);
    if (status == 201)
        acknowledge(key, reply);
    else if (status > 0 && status != 503)
        fprintf(stderr, "%s: %d %s\n", key, status, reply);
    free(reply);
    if (status != 201 && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

/* Until it is acknowledged. */
static void submit(int *fd, const char *key)
{
    char *request = make_request(key);
    double start = clock_monotonic_s(), last_chance = 0;
    int status;
    while ((status = try_once(fd, key, request)) != 201) {
        double now = clock_monotonic_s();
        if (atomic_load(&stopping) && last_chance == 0)
            last_chance = now + LAST_TRIES_S;
        if ((status > 0 && status != 503) || (last_chance > 0 && now > last_chance)) {
            fprintf(stderr, "%s: never acknowledged\n", key);
            atomic_store(&failed, true);
            break;
        }
        atomic_fetch_add(&n_retries, 1);
        usleep(1000); /* belayd is being started again */
    }
    size_t n = atomic_fetch_add(&n_acked, 1);
    if (n < LATENCIES_MAX)
        latency_ms[n] = (float)((clock_monotonic_s() - start) * 1000);
    free(request);
}

static void *client(void *ctx)
{
    int fd = -1;
    for (size_t n = 0; !atomic_load(&stopping) && !atomic_load(&failed); n++) {
        char *key = str_printf("storm-%s-%zu-%zu", seed, (size_t)ctx, n);
        submit(&fd, key);
        free(key);
        if (pause_us)
            usleep(pause_us);
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void report(double seconds)
{
    size_t n = atomic_load(&n_acked), kept = n < LATENCIES_MAX ? n : LATENCIES_MAX;
    qsort(latency_ms, kept, sizeof(*latency_ms), by_value);
    printf("%zu submits in %.2f s: %.0f/s, median %.2f ms, p99 %.2f ms, %zu retries\n", n, seconds,
           (double)n / seconds, kept ? (double)latency_ms[kept / 2] : 0.0,
           kept ? (double)latency_ms[kept * 99 / 100] : 0.0, atomic_load(&n_retries));
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "submit_storm DIR CONNECTIONS SECONDS SEED [ACKED [PAUSE_US]]\n");
        return 2;
    }
    size_t clients = strtoul(argv[2], NULL, 10);
    double seconds = strtod(argv[3], NULL), start = clock_monotonic_s();
    socket_path = str_printf("%s/belayd.sock", argv[1]);
    seed = argv[4];
    acked_file = argc > 5 ? fopen(argv[5], "a") : NULL;
    pause_us = argc > 6 ? (useconds_t)strtoul(argv[6], NULL, 10) : 0;
    latency_ms = mem_zero(LATENCIES_MAX, sizeof(*latency_ms));
    signal(SIGTERM, on_signal);
    signal(SIGPIPE, SIG_IGN);
    pthread_t *threads = mem_zero(clients, sizeof(*threads));
    for (size_t i = 0; i < clients; i++) {
        if (pthread_create(&threads[i], NULL, client, (void *)i) != 0)
            abort();
    }
    while (!atomic_load(&stopping) && !atomic_load(&failed) &&
           (seconds == 0 || clock_monotonic_s() - start < seconds))
        usleep(1000);
    atomic_store(&stopping, true);
    for (size_t i = 0; i < clients; i++)
        pthread_join(threads[i], NULL);
    report(clock_monotonic_s() - start);
    free(threads);
    free(latency_ms);
    free(socket_path);
    if (acked_file && fclose(acked_file) != 0)
        return 1;
    return atomic_load(&failed);
}
