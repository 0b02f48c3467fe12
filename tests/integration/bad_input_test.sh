#!/usr/bin/env bash
# Each kind of bad job file: validate and submit say file:line:column and why, exit with 2, and nothing is created; belayd refuses the
# same texts itself when they come past the launcher.
. "$(dirname "$0")/../lib.sh"
cd "$SCRATCH" || exit 1

model='model: {arch: gpt2, layers: 1, hidden: 16, heads: 2, context: 16}'
train="name: x\ntrain:\n  $model\n  data: {path: a}\n  steps: 4\n  batch: {global: 8}\n" # what follows begins in line 7
run='name: x\nrun: {command: ["true"]}\n' # … in line 3
long=$(printf 'a%.0s' {1..300})

# NAME|LINE:COLUMN|a regular expression for the sentence|the file, for printf
cases=(
  "unknown key|3:1|unknown field \"nmae\"; did you mean \"name\"|${run}nmae: y\n"
  "key of another section|3:1|it belongs under train.optimizer|${run}lr: 3\n"
  "key that is there twice|3:1|\"name\" is given twice; it is already in line 1, column 1|${run}name: y\n"
  "mapping where a number belongs|3:16|parallel.dp: must be a single value, not a mapping|${run}parallel: {dp: {a: b}}\n"
  "word where a number belongs|5:10|train.steps: must be a whole number from 1 to 1000000000, not \"many\"|${train/steps: 4/steps: many}"
  "number in quotes|5:10|train.steps: must not be in quotes|${train/steps: 4/steps: \"4\"}"
  "word where a section belongs|3:12|resources: must be a mapping|${run}resources: gpu\n"
  "command that is no list|2:16|must be a list, one word each: command: \[\"sh\", \"-c\", \"exit\"\]|name: x\nrun: {command: sh -c exit}\n"
  "negative count|2:33|run.ranks: must be a whole number from 1 to 1048576, not \"-2\"|name: x\nrun: {command: [\"true\"], ranks: -2}\n"
  "huge count|2:33|run.ranks: must be a whole number|name: x\nrun: {command: [\"true\"], ranks: 99999999999999999999}\n"
  "fractional count|5:10|train.steps: must be a whole number from 1 to 1000000000, not \"4.5\"|${train/steps: 4/steps: 4.5}"
  "mesh that does not divide the ranks|2:33|6 ranks cannot be divided by tp x pp x cp = 2 x 2 x 1 = 4|name: x\nrun: {command: [\"true\"], ranks: 6}\nparallel: {tp: 2, pp: 2}\n"
  "mesh that is not the ranks|2:33|6 ranks, but tp x pp x cp x dp = 2 x 1 x 1 x 2 = 4|name: x\nrun: {command: [\"true\"], ranks: 6}\nparallel: {tp: 2, dp: 2}\n"
  "mesh beyond all numbers|3:1|more than 1048576 ranks|${run}parallel: {tp: 1048576, pp: 1048576, cp: 1048576, dp: 1048576}\n"
  "batch that dp does not divide|6:19|8 sequences cannot be divided by dp = 3|${train}parallel: {dp: 3}\n"
  "batch that micro does not divide|6:19|8 is not a multiple of micro x dp = 3 x 2 = 6|${train/global: 8/global: 8, micro: 3}parallel: {dp: 2}\n"
  "name with a slash|1:7|name: must be 1 to 63 .*not \"a/b\" \(\"/\" is not allowed\)|name: a/b\n"
  "name with spaces|1:7|not \"a b\" \(a space is not allowed\)|name: a b\n"
  "name of 300 bytes|1:7|\(300 bytes\)|name: $long\n"
  "name that climbs|1:7|not allowed|name: ../../../etc/cron.d/x\n"
  "name that is yes|1:7|yes without quotes is read as a boolean by many YAML tools; write \"yes\"|name: yes\n"
  "name that is no|1:7|no without quotes is read as a boolean|name: no\n"
  "name that is on|1:7|on without quotes is read as a boolean|name: on\n"
  "name that is a number|1:7|123 without quotes is read as a number|name: 123\n"
  "tab|3:1|tab in the indentation|name: x\nrun:\n\tcommand: [a]\n"
  "alias bomb|1:4|anchors .* are not allowed|a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\n"
  "merge key|3:3|merge keys|name: x\nrun:\n  <<: {ranks: 2}\n"
  "NUL byte|2:5|NUL byte|name: x\nrun:\0 {command: [a]}\n"
  "NUL as an escape|3:10|NUL byte|${run}env: {A: \"a\\\\0b\"}\n"
  "not UTF-8|3:10|byte 0xff is not UTF-8|${run}env: {A: \xff}\n"
  "control characters|3:10|control character 0x1b|${run}env: {A: \x1b[31m}\n"
  "broken YAML|3:1|not YAML|name: x\nrun: {command: [a]\n"
  "two documents|3:1|a second document|${run}---\nname: y\n"
  "nothing|1:1|the file is empty|"
  "neither train nor run|1:1|the job does nothing|name: x\n"
  "both train and run|7:1|either train .* or run|${train}run: {command: [a]}\n"
  "mesh that does not divide the model|7:16|parallel.tp: 4 does not divide heads = 2; use tp: 2|${train}parallel: {tp: 4}\n"
)
plan $(( 2 + 3 * ${#cases[@]} + 3 + 6 ))

# Sends file $1 to belayd past the launcher's own check; prints the status and the body.
post() {
  perl -MIO::Socket::UNIX -e '
    local $/; open my $f, "<", $ARGV[0] or die; my $spec = <$f>;
    my $text = join "", map { my $c = ord; $c == 34 || $c == 92 || $c < 32 ? sprintf("\\u%04x", $c) : $_ } split //, $spec;
    my $body = "{\"spec\":\"$text\",\"file\":\"posted.yaml\",\"set\":[],\"cwd\":\"/tmp\",\"key\":\"k-$$-" . rand() . "\"}";
    my $s = IO::Socket::UNIX->new(Peer => $ARGV[1]) or die "connect: $!";
    local $SIG{PIPE} = "IGNORE";
    print $s "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
    my $reply = <$s> // ""; my ($status) = $reply =~ m{^HTTP/1\.\d (\d+)}; $reply =~ s/^.*?\r\n\r\n//s;
    print $status // "none", " $reply\n";
  ' "$1" "$BELAY_DIR/belayd.sock"
}

# refused FILE WHERE SENTENCE COMMAND...: exit code 2, nothing on stdout, the place and the sentence on stderr
refused() {
  local file=$1 where=$2 sentence=$3 rc; shift 3
  "$@" "$file" >out 2>err; rc=$?
  [ "$rc" -eq 2 ] && [ ! -s out ] && grep -qE "^$file:$where: .*$sentence" err && return
  diag "exit code $rc, expected 2 and $file:$where: $sentence" "stdout: $(head -c 300 out)" "stderr: $(head -c 600 err)"
  return 1
}

quietly() { "$@" >quietly.log 2>&1 || { diag "$(cat quietly.log)"; return 1; }; }

ok "a cluster" quietly belay up --nodes 1 --slots 1 || exit 1
is "it has no jobs" "$(belay status --all -o json | json .length)" 0

number=0
for case in "${cases[@]}"; do
  IFS='|' read -r what where sentence text <<<"$case"
  number=$((number + 1)); file=bad$number.yaml
  printf '%b' "$text" >"$file"
  ok "$what: validate" refused "$file" "$where" "$sentence" belay validate
  ok "$what: submit" refused "$file" "$where" "$sentence" belay submit
  case $what in # these two do not even arrive as a text
    "NUL byte" | "not UTF-8") expected='"error"' ;;
    *) expected="posted.yaml:$where: " ;;
  esac
  like "$what: belayd itself" "$(post "$file")" "^400 \\{.*$expected"
done

# A file of 10 MB is refused without being read to the end.
truncate -s 10M big.yaml
for command in validate submit; do
  belay $command big.yaml >out 2>err; rc=$?
  like "10 MB: $command" "$rc $(cat out err)" '^2 .*big.yaml.* (larger than|at most)'
done
like "10 MB: belayd itself" "$(post big.yaml | head -c 300)" '^(400|413|none)'

belay validate missing.yaml >out 2>err
is "a file that is not there: exit code" $? 2
like "a file that is not there: sentence" "$(cat err)" 'missing.yaml'
printf '%b' "$train" >good.yaml
belay submit good.yaml --set train.stps=4 >out 2>err
is "a mistake in --set: exit code" $? 2
like "a mistake in --set: sentence" "$(cat err)" '^--set train.stps=4: unknown field "train.stps"; did you mean "train.steps"'
is "nothing was created" "$(belay status --all -o json | json .length)" 0
ok "the good file is valid" quietly belay validate good.yaml
