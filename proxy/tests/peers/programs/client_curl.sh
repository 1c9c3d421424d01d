#!/bin/bash
# curl, or the program that CURL names. Arguments: the address of the gateway, its authority, the file to send, and options of curl.
base=$1 authority=$2 file=$3
shift 3
run() { ${CURL:-curl} --silent --show-error --max-time 60 --cacert "$authority" "$@"; }
# Without Expect, curl writes before it reads.
upload() { run --header 'Expect:' --data-binary "@$file" --write-out '%{http_code}' "$@"; }

hash=$(run "$@" "$base/download" | sha256sum)
echo "download 200 ${hash%% *}"
echo "upload $(upload --write-out '' "$@" --fail "$base/upload" | sed 's/^/200 /')"
echo "upload $(run "$@" --fail --header 'Expect:' --request POST --upload-file - "$base/upload" <"$file" | sed 's/^/200 /')"

run --no-buffer --fail "$@" "$base/stream?curl" | {
    read -r first
    run "$@" "$base/go-on?curl"
    echo "stream 200 $first, $(grep .)"
}

for path in secret limited conflict; do
    status=$(upload --output /dev/null "$@" "$base/$path" 2>&1)
    code=$?
    ((code == 0)) && echo "$path $status" || echo "$path $status (exit $code)"
done
