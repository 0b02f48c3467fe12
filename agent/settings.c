/* settings: one table of flags serves the command line and the environment; a flag wins over its variable.
 *
 * The secret is read here, once, and refused when others could read the file: whoever knows it can run programs here. */
#include "agent/settings.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "schema/link.h"

#define SECRET_FILE_MAX 4096
#define SECRET_MIN      16 /* characters; belayd makes 64 */

static const struct flag {
    const char *name, *variable;
    size_t offset; /* of a char * in struct settings */
    bool required;
} flags[] = {
    {"dir", "BELAY_AGENT_DIR", offsetof(struct settings, dir), true},
    {"name", "BELAY_NODE", offsetof(struct settings, name), true},
    {"controller", "BELAY_CONTROLLER", offsetof(struct settings, controller), true},
    {"secret-file", "BELAY_SECRET_FILE", offsetof(struct settings, secret_file), true},
    {"slots", "BELAY_SLOTS", offsetof(struct settings, slots_text), false},
    {"rack", "BELAY_RACK", offsetof(struct settings, rack), false},
    {"pod", "BELAY_POD", offsetof(struct settings, pod), false},
    {"nvlink", "BELAY_NVLINK", offsetof(struct settings, nvlink), false},
    {"address", "BELAY_ADDRESS", offsetof(struct settings, address), false},
};
#define FLAGS (sizeof flags / sizeof *flags)

const char *settings_help(void)
{
    return "usage: belay-agent --dir DIR --name NODE --controller HOST:PORT --secret-file FILE [options]\n"
           "Runs on every node: tells belayd what the node has and carries out its orders, one belay-shim "
           "per\n"
           "attempt. The shims and their ranks go on while the agent is away.\n\n"
           "  --dir DIR           the agent's own folder (attempts/ and logs/ are below it)  "
           "BELAY_AGENT_DIR\n"
           "  --name NODE         this node's name in the cluster                            BELAY_NODE\n"
           "  --controller H:P    where belayd listens for agents                            "
           "BELAY_CONTROLLER\n"
           "  --secret-file FILE  the cluster's secret, mode 0600                            "
           "BELAY_SECRET_FILE\n"
           "  --slots N           offer N CPU slots (default: the GPUs, else the cores)      BELAY_SLOTS\n"
           "  --rack R, --pod P   where the node stands                                      BELAY_RACK, "
           "_POD\n"
           "  --nvlink D          its NVLink domain, if that is wider than the node          BELAY_NVLINK\n"
           "  --address A         where other nodes reach this one (default: found out)      BELAY_ADDRESS\n"
           "  --help, --version\n\n"
           "SIGTERM: exit, ranks go on. SIGINT: kill every attempt on this node, then exit; twice: exit at "
           "once.\n"
           "Logs of ranks stay in DIR/logs until someone removes them.\n";
}

bool settings_name_ok(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > LINK_NODE_NAME_MAX || !isalnum((unsigned char)name[0]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]))
            return false;
    return true;
}

static char **field(struct settings *s, const struct flag *f)
{
    return (char **)((char *)s + f->offset);
}

static void from_environment(struct settings *s)
{
    for (size_t i = 0; i < FLAGS; i++) {
        const char *value = getenv(flags[i].variable);
        *field(s, &flags[i]) = str_dup(value ? value : "");
    }
}

static int from_flags(struct settings *s, int argc, char **argv, struct err *err)
{
    struct option options[FLAGS + 3] = {0};
    for (size_t i = 0; i < FLAGS; i++)
        options[i] = (struct option){flags[i].name, required_argument, NULL, (int)i};
    options[FLAGS] = (struct option){"help", no_argument, NULL, 'h'};
    options[FLAGS + 1] = (struct option){"version", no_argument, NULL, 'V'};
    optind = 0;
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (c == ':')
            return err_set(err, "%s needs a value; see belay-agent --help", argv[optind - 1]);
        if (c == '?')
            return err_set(err, "unknown flag %s; see belay-agent --help", argv[optind - 1]);
        s->help |= c == 'h';
        s->version |= c == 'V';
        if (c < (int)FLAGS) {
            free(*field(s, &flags[c]));
            *field(s, &flags[c]) = str_dup(optarg);
        }
    }
    if (optind < argc)
        return err_set(err, "\"%s\" is not understood; belay-agent takes only flags, see --help",
                       argv[optind]);
    return 0;
}

static int check_given(struct settings *s, struct err *err)
{
    for (size_t i = 0; i < FLAGS; i++)
        if (flags[i].required && **field(s, &flags[i]) == '\0')
            return err_set(err, "--%s is missing (or set %s); see belay-agent --help", flags[i].name,
                           flags[i].variable);
    if (!settings_name_ok(s->name))
        return err_set(err,
                       "the node name \"%.80s\" is not allowed; use up to %d letters, digits, '.', '_', '-', "
                       "beginning with a letter or digit",
                       s->name, LINK_NODE_NAME_MAX);
    const struct link_inventory *limits = NULL;
    if (strlen(s->rack) >= sizeof limits->rack || strlen(s->pod) >= sizeof limits->pod ||
        strlen(s->nvlink) >= sizeof limits->nvlink || strlen(s->address) >= sizeof limits->address)
        return err_set(err, "--rack, --pod, --nvlink and --address take at most %zu characters",
                       sizeof limits->rack - 1);
    return 0;
}

/* A whole number from min to max, nothing else around it. */
static int whole_number(const char *text, long min, long max, long *out)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno || end == text || *end || !isdigit((unsigned char)text[0]) || n < min || n > max)
        return -1;
    *out = n;
    return 0;
}

static int split_controller(struct settings *s, struct err *err)
{
    const char *colon = strrchr(s->controller, ':');
    long port;
    if (!colon || colon == s->controller || whole_number(colon + 1, 1, 65535, &port) < 0)
        return err_set(err, "--controller \"%s\" is not HOST:PORT with a port from 1 to 65535",
                       s->controller);
    const char *from = s->controller;
    size_t len = (size_t)(colon - from);
    if (from[0] == '[' && from[len - 1] == ']') { /* [::1]:7000 */
        from++;
        len -= 2;
    }
    s->host = str_printf("%.*s", (int)len, from);
    s->port = (int)port;
    return 0;
}

static int read_slots(struct settings *s, struct err *err)
{
    long slots = 0;
    if (s->slots_text[0] && whole_number(s->slots_text, 1, LINK_RANKS_PER_NODE_MAX, &slots) < 0)
        return err_set(err, "--slots \"%s\" is not a whole number from 1 to %d", s->slots_text,
                       LINK_RANKS_PER_NODE_MAX);
    s->slots = slots;
    return 0;
}

static int read_secret(struct settings *s, struct err *err)
{
    struct stat st;
    if (stat(s->secret_file, &st) < 0)
        return err_sys(err, "cannot open the secret file %s", s->secret_file);
    if (st.st_mode & 077)
        return err_set(err, "the secret file %s can be read by others; run: chmod 600 %s", s->secret_file,
                       s->secret_file);
    size_t len;
    s->secret = fs_read(s->secret_file, SECRET_FILE_MAX, &len, err);
    if (!s->secret)
        return -1;
    while (len > 0 && isspace((unsigned char)s->secret[len - 1]))
        s->secret[--len] = '\0';
    if (len < SECRET_MIN || strlen(s->secret) != len)
        return err_set(
            err, "the secret file %s holds no secret of at least %d characters; copy it from belayd's folder",
            s->secret_file, SECRET_MIN);
    return 0;
}

int settings_read(struct settings *s, int argc, char **argv, struct err *err)
{
    memset(s, 0, sizeof *s);
    from_environment(s);
    if (from_flags(s, argc, argv, err) < 0)
        return -1;
    if (s->help || s->version)
        return 0;
    if (check_given(s, err) < 0 || split_controller(s, err) < 0 || read_slots(s, err) < 0)
        return -1;
    return read_secret(s, err);
}

void settings_clear(struct settings *s)
{
    for (size_t i = 0; i < FLAGS; i++)
        free(*field(s, &flags[i]));
    free(s->host);
    if (s->secret)
        explicit_bzero(s->secret, strlen(s->secret));
    free(s->secret);
    memset(s, 0, sizeof *s);
}
