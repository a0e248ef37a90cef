#!/bin/sh
# Runs a program for cargo (`.cargo/config.toml`). After one of tests it prints how many tests of
# this `cargo test` have passed so far, so that the last line is the total, lit files included.
set -u

case $1 in
  */deps/*) ;;
  *) exec "$@" ;;
esac

# The counts so far. Cargo is the parent of all programs of a run; its process number and start time
# distinguish this run from earlier ones.
counts=$(dirname "$1")/../passed-tests
this="$PPID-$(ps -o lstart= -p "$PPID" 2> /dev/null | tr ' ' '-')"

# A terminal has the colours that it would have without a pipe.
if [ -t 1 ]; then
  case " $* " in
    *' --color'*) ;;
    *) set -- "$@" --color=always ;;
  esac
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
{
  "$@"
  echo $? > "$folder/status"
} | tee "$folder/output"

run='' passed=0 programs=0
if [ -f "$counts" ]; then read -r run passed programs < "$counts"; fi
if [ "$run" != "$this" ]; then passed=0 programs=0; fi
own=$(sed -n 's/^test result: .* \([0-9][0-9]*\) passed.*/\1/p' "$folder/output")
for count in $own; do
  passed=$((passed + count))
  programs=$((programs + 1))
done
echo "$this $passed $programs" > "$counts"
if [ -n "$own" ]; then echo "$passed tests passed in $programs programs"; fi
exit "$(cat "$folder/status")"
