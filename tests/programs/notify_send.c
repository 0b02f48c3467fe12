/* notify_send: sends datagrams to $BELAY_NOTIFY_SOCKET as a rank would.
 *
 *   notify_send TEXT…            one datagram each ("\n" in TEXT is a new line)
 *   notify_send --flood N        N datagrams STEP=0..N-1, with CHECKPOINT_DURABLE every tenth
 *   notify_send --usr1 MARK      announces CHECKPOINT_ON=SIGUSR1, makes MARK.on, and waits for the signal, then makes MARK */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int fd;
static struct sockaddr_un to = {.sun_family = AF_UNIX};

static void send_text(const char *text)
{
    if (sendto(fd, text, strlen(text), 0, (struct sockaddr *)&to, sizeof to) < 0)
        perror("sendto");
}

static void send_argument(const char *text)
{
    char out[8192];
    size_t n = 0;
    for (const char *p = text; *p && n + 1 < sizeof out; p++) {
        bool eol = p[0] == '\\' && p[1] == 'n';
        out[n++] = eol ? '\n' : *p;
        p += eol;
    }
    out[n] = '\0';
    send_text(out);
}

static void flood(long n)
{
    for (long i = 0; i < n; i++) {
        char text[96];
        if (i % 10 == 0)
            snprintf(text, sizeof text, "STEP=%ld\nCHECKPOINT_DURABLE=%ld", i, i);
        else
            snprintf(text, sizeof text, "STEP=%ld", i);
        send_text(text);
    }
}

static void touch(const char *path, const char *suffix)
{
    char full[4096];
    snprintf(full, sizeof full, "%s%s", path, suffix);
    FILE *f = fopen(full, "w");
    if (f)
        fclose(f);
}

static void wait_usr1(const char *mark)
{
    sigset_t set;
    int sig;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    send_text("CHECKPOINT_ON=SIGUSR1");
    touch(mark, ".on");
    sigwait(&set, &sig);
    touch(mark, "");
}

int main(int argc, char **argv)
{
    const char *path = getenv("BELAY_NOTIFY_SOCKET");
    fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (!path || fd < 0 || argc < 2)
        return 1;
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    if (argc == 3 && strcmp(argv[1], "--flood") == 0)
        flood(strtol(argv[2], NULL, 10));
    else if (argc == 3 && strcmp(argv[1], "--usr1") == 0)
        wait_usr1(argv[2]);
    else
        for (int i = 1; i < argc; i++)
            send_argument(argv[i]);
    return 0;
}
