#!/usr/bin/env bash
# Gathers some 3 MB of English that every Debian machine with perl has: the prose of the documentation of Perl's modules, and the licences.
# usage: gather-text.sh FOLDER    (a new one; one file a document)
set -euo pipefail
out=${1:?usage: gather-text.sh FOLDER}
mkdir "$out"
cp /usr/share/common-licenses/{Apache-2.0,Artistic,GFDL-1.3,GPL-3,LGPL-2.1,MPL-1.1} "$out"/
# Paragraphs of POD that are neither commands nor code, without their marks. One process for all files.
perl -MFile::Find -e '
  my ($out, @folders) = @ARGV;
  my %marks = (lt => "<", gt => ">", verbar => "|", sol => "/");
  find({no_chdir => 1, wanted => sub { push @files, $_ if /\.(pm|pod)$/ && -f }}, @folders);
  for my $file (sort @files) {
    open my $in, "<", $file or next;
    local $/ = "";
    my ($pod, $text) = (0, "");
    while (my $p = <$in>) {
      if ($p =~ /^=(\w+)/) { $pod = $1 !~ /^(cut|begin|for|encoding)/; next }
      next if !$pod or $p =~ /^\s/ or $p =~ /[^\x00-\x7f]/;
      $p =~ s/\s+/ /g;
      $p =~ s/ $//;
      1 while $p =~ s/\bE<(\w+)>/$marks{$1} \/\/ ""/e or $p =~ s/\bL<(?:[^<>|]*\|)?([^<>|]*)>/$1/ or $p =~ s/\b[A-Z]<([^<>]*)>/$1/ or $p =~ s/\b[A-Z]<<+ (.*?) >>+/$1/;
      $text .= "$p\n\n" if length $p > 40;
    }
    next if length $text < 2000;
    (my $name = $file) =~ s{.*/perl[^/]*/(?:[\d.]+/)?|\.\w+$}{}g;
    $name =~ tr{/}{-};
    open my $to, ">", "$out/$name.txt" or die "$out/$name.txt: $!\n";
    print $to $text;
  }' "$out" "$(realpath "$(perl -MConfig -e 'print $Config{privlibexp}')")"
echo "$(find "$out" -type f | wc -l) documents, $(cat "$out"/* | wc -c) bytes in $out"
