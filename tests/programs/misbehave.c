/* Misbehaves as ARGV[1] says, where nobody looks: two processes further down, with its output thrown away. For the test that
 * tests/run-one.sh notices what a sanitizer finds in daemons: leak, overflow (heap) and shift (undefined behaviour). With "skip" it says
 * what a cmocka program says of a skipped test. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile kept;

static int misbehave(const char *how)
{
    volatile int amount = 40;
    if (strcmp(how, "leak") == 0) {
        kept = malloc(123);
        kept = NULL;
    } else if (strcmp(how, "overflow") == 0) {
        volatile char *room = malloc((size_t)amount);
        room[amount] = 1;
        free((void *)room);
    } else if (strcmp(how, "shift") == 0) {
        return (1 << amount) == 77;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    if (strcmp(argv[1], "skip") == 0)
        return puts("not ok 1 # SKIP a_test") < 0;
    pid_t child = fork();
    if (child > 0)
        return waitpid(child, NULL, 0) == child ? 0 : 1;
    int null = open("/dev/null", O_WRONLY);
    if (child < 0 || null < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
        return 1;
    (void)setsid();
    return fork() == 0 ? misbehave(argv[1]) : 0;
}
